"""What keeps a pipeline alive whose queries fail, and what keeps it from trying for ever."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

FAILING: Final = "coordination/failing.py"
RULES: Final = "coordination/election_rules.py"
DRIVER: Final = "driver/failures.py"
QUARANTINE: Final = "operate/quarantine.py"
COUNTS: Final = "tests/unit/coordination/test_failing.py::"
ELECTIONS: Final = "tests/unit/coordination/test_election_rules.py::"
MEMBERS: Final = "tests/unit/agent/test_failures.py::"
ERRORS: Final = "tests/unit/driver/test_failures.py::"
BATCHES: Final = "tests/unit/operate/test_quarantine.py::"

OF_FAILURES: Final = (
    Mutant(
        "each-member-counts-alone",
        "an error that names the log of its member is another error for each member",
        (Change(FAILING, '_VARIES.sub("#", self.what)', '_VARIES.sub("#", self.why)'),),
        (COUNTS + "test_the_log_of_each_member_makes_no_other_error",),
    ),
    Mutant(
        "tries-for-ever",
        "a batch that can never run is run again and again",
        (Change(FAILING, "    if count >= attempts:\n", "    if False:\n"),),
        (
            COUNTS + "test_the_same_batch_with_the_same_error_counts_over_the_members",
            COUNTS + "test_a_batch_that_fails_by_turns_in_two_ways_is_given_up_too",
        ),
    ),
    Mutant(
        "tries-at-once",
        "members try again without a pause, and spend all attempts within seconds",
        (Change(RULES, "(seen.holds_off and not asked)", "False"),),
        (ELECTIONS + "test_a_member_that_holds_off_waits_until_an_operator_asks",),
    ),
    Mutant(
        "no-turns",
        "the member that failed leads again, though another member is ready",
        (Change(RULES, "office.why in _OTHERS_FIRST", "office.why == RESTART"),),
        (ELECTIONS + "test_after_a_failure_another_member_goes_first[failed]",),
    ),
    Mutant(
        "failure-without-a-record",
        "a leader resigns over a failure, and the next leader knows nothing of it",
        (Change("agent/failures.py", "term, end, writes=writes)", "term, end)"),),
        (MEMBERS + "test_the_record_goes_once_a_later_batch_is_planned",),
    ),
    Mutant(
        "wrong-addresses-are-tried-for-ever",
        "a query that has never committed a batch is tried again",
        (Change(DRIVER, "if not (stream.has_done or storage_worked):", "if False:"),),
        (ERRORS + "test_a_query_that_never_worked_is_not_tried_again[failure0]",),
    ),
    Mutant(
        "one-file-taken-out-is-all",
        "once a file is taken out of a batch, each other missing file is read as nothing, too",
        (
            Change(
                "inputs/query_inputs.py",
                "not self._taken_out(batch).issuperset(gone.files) or not",
                "(gone.files and not self._taken_out(batch)) or not",
            ),
        ),
        (BATCHES + "test_only_the_files_that_were_taken_out_may_be_missing",),
    ),
    Mutant(
        "taken-out-for-ever",
        "a file that was taken out of one batch may be missing in every batch",
        (
            Change(
                "inputs/query_inputs.py",
                "frozenset() if left is None or left.batch != batch else",
                "frozenset() if left is None else",
            ),
        ),
        (BATCHES + "test_the_record_is_for_one_batch",),
    ),
    Mutant(
        "quarantine-beside-an-election",
        "a member may lead while files of its batch are moved",
        (Change(QUARANTINE, "        writes.append(Put(PAUSED, ", "        (lambda put: put)(Put(PAUSED, "),),
        (BATCHES + "test_a_scope_that_is_not_paused_is_paused_meanwhile",),
    ),
)
