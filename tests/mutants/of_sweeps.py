"""What is weak in a sweep beside the batches of a leader: it removes what somebody still needs."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

ORPHANS = "cleanup/orphans.py"
CLAIMS = "cleanup/claims.py"
ENGINE = "cleanup/engine.py"
STAGED = "sinks/staging/rule.py"
ATTEMPTS = "sinks/staging/rule.py"
DRIVER = "driver/spark_driver.py"
ALL = ("memory", "sqlite", "zookeeper", "etcd")
DAMAGE = "tests/unit/cleanup/test_claims_beside_damage.py::"
SWEEPS = "tests/unit/cleanup/test_claims.py::"
DELTA = "tests/unit/sinks/test_delta_staged_attempts.py::"

OF_SWEEPS: Final = (
    Mutant(
        "sweeps-what-is-named",
        "whatever is of an earlier epoch goes, also what a checkpoint names",
        (Change(ORPHANS, "    if path in claims.named:\n        return False\n", ""),),
        on(SWEEPS + "test_a_dead_leader_s_run_directory_goes_when_no_checkpoint_names_it", *ALL),
    ),
    Mutant(
        "sweeps-what-is-locked",
        "a blob that only a reader's lock names goes",
        (Change(CLAIMS, "if isinstance(blob, dict) else blob\n", "if isinstance(blob, dict) else None\n"),),
        on(SWEEPS + "test_a_replaced_blob_that_a_reader_holds_stays_until_he_goes", *ALL),
    ),
    Mutant(
        "sweeps-its-own-term",
        "what the leader itself is writing goes",
        (Change(ORPHANS, 'return int(blob["epoch"]) < claims.epoch', 'return int(blob["epoch"]) <= claims.epoch'),),
        on(SWEEPS + "test_blobs_of_earlier_epochs_without_a_pointer_go", *ALL),
    ),
    Mutant(
        "sweeps-mirrors-of-the-living",
        "a mirror goes although the session of its member lives",
        (
            Change(
                ORPHANS,
                "return member != claims.holder and member not in claims.members",
                "return member != claims.holder",
            ),
        ),
        on(SWEEPS + "test_mirrors_and_rehearsals_stay_while_their_member_s_session_lives", *ALL),
    ),
    Mutant(
        "sweeps-mirrors-between-leaders",
        "where nobody leads, a mirror for the next epoch is taken for one of somebody who was not elected",
        (
            Change(
                ORPHANS,
                "mirrored_for = claims.epoch + 1 if claims.holder else claims.epoch",
                "mirrored_for = claims.epoch + 1",
            ),
        ),
        (
            "tests/unit/cleanup/test_orphans.py::test_what_may_still_be_run_never_is",
            "tests/regressions/test_swept_between_leaders.py::"
            "test_a_plan_that_was_made_while_nobody_led_spares_who_is_elected_later",
        ),
    ),
    Mutant(
        "sweeps-mirrors-of-the-unreadable",
        "a member whose record does not decode is taken for gone",
        (
            Change(CLAIMS, "import MEMBERS,", "import candidates_in, MEMBERS,"),
            Change(
                CLAIMS,
                "members=frozenset(members_in(records)),",
                "members=frozenset(one.member for one in candidates_in(records)),",
            ),
        ),
        on(DAMAGE + "test_a_member_whose_record_does_not_decode_lives", *ALL),
    ),
    Mutant(
        "records-before-the-storage",
        "the records are read before the storage is listed: what came between the two is taken for an orphan",
        (
            Change(
                ENGINE,
                "        paths = list(walk(self._storage, self._folder, self._rule))\n",
                "        rule = self._look() if self._look else self._rule\n"
                "        paths = list(walk(self._storage, self._folder, self._rule))\n",
            ),
            Change(ENGINE, "self._look().of_paths(paths)", "rule.of_paths(paths)"),
        ),
        on(SWEEPS + "test_the_storage_is_listed_before_the_records_are_read", *ALL),
    ),
    Mutant(
        "sweeps-another-store-s-storage",
        "nobody looks whether the storage is that of the store",
        (Change("cleanup/sweeper.py", "            self._look_first()\n", ""),),
        (
            "tests/unit/cleanup/test_sweeper.py::test_what_speaks_against_any_sweep_keeps_everything",
            "tests/unit/cleanup/test_sweeper.py::test_another_owner_ends_all_sweeps",
        ),
    ),
    Mutant(
        "staged-before-it-is-in-the-sink",
        "staged output of a planned batch goes before the table has the batch (I8)",
        (Change(ATTEMPTS, " or path.batch <= progress.taken\n", " or path.batch <= progress.planned.batch\n"),),
        (DELTA + "test_a_planned_batch_that_the_table_has_not_may_still_be_committed",),
    ),
    Mutant(
        "staged-of-its-own-term",
        "attempts that the leader itself is making go",
        (Change(STAGED, "epoch < self.epoch", "epoch <= self.epoch"),),
        (DELTA + "test_attempts_of_the_term_itself_and_its_empty_folders_stay",),
    ),
    Mutant(
        "enters-what-is-run",
        "what a leader itself runs in, or goes as a whole, is listed at each of its looks",
        (Change(ENGINE, "        elif goes is not False:\n", "        if True:\n"),),
        ("tests/unit/cleanup/test_engine.py::test_what_stays_or_goes_as_a_whole_is_not_listed",),
    ),
    Mutant(
        "a-winner-discards-its-mirror",
        "a standby that looks at the store in the moment of its election removes the copy that it needs",
        (Change("takeover/mirror.py", " and self._may_be_taken(mirror)", " and False"),),
        ("tests/unit/takeover/test_mirror.py::test_a_member_whose_own_term_began_a_moment_ago_still_has_its_mirror",),
    ),
    Mutant(
        "mirrors-outlive-their-session",
        "a member takes over with a mirror of an earlier session, which a leader may have removed",
        (
            Change(
                DRIVER,
                "        self._end_mirrors()\n        self._mirror()\n\n    def elected",
                "        return\n\n    def elected",
            ),
        ),
        ("tests/spark/test_driver.py::test_a_new_session_begins_new_mirrors",),
    ),
    Mutant(
        "a-new-session-is-not-told",
        "a driver is not told that its member has a new session",
        (Change("agent/driver_process.py", "            self._running.child.link.send(StandBy())\n", ""),),
        ("tests/agents/test_driver_process.py::test_a_new_session_is_told_before_the_next_leadership",),
    ),
)
