"""What is weak where queries move in and out, and where a scope goes on whose store was lost."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

ADOPTIONS: Final = "tests/cli/test_adoption.py::"
EXPORTS: Final = "tests/cli/test_exports.py::"
BACK: Final = "tests/unit/operate/test_going_back.py::"
LOST: Final = "tests/cli/test_lost_stores.py::"
OWNED: Final = "tests/unit/driver/test_owned_work.py::"
DELTA: Final = "tests/spark/sinks/test_delta_append.py::"

OF_MOVES: Final = (
    Mutant(
        "adopts-beside-members",
        "a checkpoint is adopted into a scope that members run",
        (Change("moves/adoption.py", "if living := members_in(records):", "if living := ():"),),
        (ADOPTIONS + "test_a_scope_with_live_members_is_refused",),
    ),
    Mutant(
        "adopts-a-job-that-runs",
        "a plain query writes another batch while its checkpoint is copied, and nobody looks",
        (Change("moves/adoption.py", "    check_unchanged(plain)\n", ""),),
        (ADOPTIONS + "test_a_query_that_still_runs_is_refused",),
    ),
    Mutant(
        "delta-forgets-the-job-of-before",
        "the batch that an adopted job had committed to its table comes again",
        (Change("sinks/delta/log.py", "self._taken_before = self._newest_batch(table, self._adopted)", ""),),
        (DELTA + "test_a_batch_that_sparks_own_sink_has_committed_is_known",),
    ),
    Mutant(
        "delta-takes-the-job-for-the-pipeline",
        "a batch of a job that went on by itself counts as the batch of that number here",
        (Change("sinks/delta/log.py", "if self.taken is None and self._taken_before == batch:", "if True:"),),
        (DELTA + "test_a_query_whose_job_of_before_went_on_is_refused",),
    ),
    Mutant(
        "export-takes-a-batch-in-flight",
        "a planned batch counts as done where a query moves out",
        (Change("moves/plain_checkpoint.py", "if has_commit(source, newest.batch):", "if True:"),),
        (EXPORTS + "test_a_batch_in_flight_is_not_exported",),
    ),
    Mutant(
        "goes-back-under-its-old-id",
        "a query that goes back keeps the id under which its sinks have later batches",
        (Change("operate/going_back.py", "query_id=str(uuid.uuid4())", "query_id=kept.query_id"),),
        (BACK + "test_a_query_goes_on_after_the_older_batch_under_another_id",),
    ),
    Mutant(
        "goes-back-without-its-pin",
        "state that Spark has removed is looked for in the run directory, though a pin has it",
        (Change("operate/going_back.py", "(*copies, kept.run_directory)", "(kept.run_directory,)"),),
        (BACK + "test_state_that_spark_has_removed_comes_from_the_pin",),
    ),
    Mutant(
        "export-is-swept",
        "a sweep removes a run directory that is exported, once a takeover has moved its checkpoint",
        (Change("cleanup/claims.py", ", *_protected_in(records)", ""),),
        (EXPORTS + "test_no_sweep_removes_what_is_exported_also_when_its_checkpoint_moves",),
    ),
    Mutant(
        "lost-store-goes-back",
        "the new life of a scope whose store was lost begins with the first epoch",
        (Change("moves/lost_store.py", "office, uid = Office(seen, ", "office, uid = Office(0, "),),
        (LOST + "test_a_new_life_has_an_epoch_above_all_that_the_storage_has_seen",),
    ),
    Mutant(
        "lost-store-keeps-its-owner",
        "the leaders of a lost store find the marks of their owner",
        (Change("ownership/owner.py", "if other.identity != mark.identity:", "if False:"),),
        (LOST + "test_a_new_life_has_an_epoch_above_all_that_the_storage_has_seen",),
    ),
    Mutant(
        "lost-store-takes-half-a-seed",
        "a run directory in which Spark could not have started is gone on from",
        (Change("moves/lost_store.py", '"metadata" in names and ', ""),),
        (LOST + "test_it_is_told_from_where_a_scope_goes_on_whose_store_was_lost",),
    ),
    Mutant(
        "lost-store-follows-a-zombie",
        "the newest batch counts, also in the run directory of a leader that was replaced",
        (Change("moves/lost_store.py", " if run.epoch == newest]", "]"),),
        (LOST + "test_it_is_told_from_where_a_scope_goes_on_whose_store_was_lost",),
    ),
    Mutant(
        "leads-under-another-owner",
        "a leader whose batches run does not look whether the storage has another owner now",
        (
            Change(
                "driver/owned_work.py",
                "                self._compare(self._owner.check_marks)\n",
                "                pass\n",
            ),
        ),
        (OWNED + "test_while_batches_run_the_marks_are_compared_once_a_ttl",),
    ),
    Mutant(
        "idle-leader-asks-for-owners",
        "a leader without batches lists the marks once a ttl",
        (Change("driver/owned_work.py", "if None not in seen and seen == before:", "if False:"),),
        (OWNED + "test_an_idle_leader_asks_nobody",),
    ),
)
