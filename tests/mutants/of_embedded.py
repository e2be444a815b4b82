"""What is weak in the stores within a process and on one machine."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

CONTRACT = "tests/contract/test_conformance.py::"
ZOMBIE = "tests/contract/test_zombies.py::test_the_write_of_a_woken_leader_is_refused_by_the_store"
AFTER = "tests/faults/test_fencing.py::test_on_every_store_a_write_after_the_term_is_refused"

LOGS = "tests/regressions/test_one_file_two_logs.py::"

OF_EMBEDDED: Final = (
    Mutant(
        "sqlite-fence-by-existence",
        "any record at the key will do",
        (
            Change(
                "backends/sqlite/rows.py",
                "return version == wanted_version(guard)",
                "return (version is None) == (wanted_version(guard) is None)",
            ),
        ),
        (*on(AFTER, "sqlite-successor"), *on(ZOMBIE, "sqlite")),
    ),
    Mutant(
        "sqlite-timeout-is-failure",
        "a COMMIT that failed halfway is said to have written nothing",
        (
            Change(
                "backends/sqlite/errors.py",
                'return OutcomeUnknown(f"commit to store',
                'return StoreUnavailable(f"commit to store',
            ),
        ),
        ("tests/unit/backends/test_sqlite_errors.py::test_each_failure_says_what_happened_to_the_write",),
    ),
    Mutant(
        "sqlite-writers-unlocked",
        "a writer relies on SQLite's lock, which the process may have lost",
        (
            Change(
                "backends/sqlite/held_file.py",
                "while not lock_alone(self._descriptor, _WRITER):",
                "while False:",
            ),
        ),
        (LOGS + "test_a_leader_without_locks_that_is_stopped_within_a_write_is_alone",),
    ),
    Mutant(
        "sqlite-any-log",
        "a newcomer opens the file while a member has another log of it",
        (
            Change(
                "backends/sqlite/database.py",
                "if self._stands(held) and not held.is_elsewhere():",
                "if self._stands(held):",
            ),
        ),
        (LOGS + "test_a_leader_whose_log_was_removed_leads_no_more_beside_a_newcomer",),
    ),
    Mutant(
        "sqlite-log-unwatched",
        "a transaction does not look whether file and log are those of the path",
        (
            Change(
                "backends/sqlite/database.py",
                "        if self._held is not None and not self._stands(self._held):\n            # Members",
                "        if False:\n            # Members",
            ),
        ),
        (
            LOGS + "test_a_leader_whose_log_was_removed_leads_no_more_beside_a_newcomer",
            "tests/unit/backends/test_sqlite_errors.py::test_a_replaced_database_is_noticed",
        ),
    ),
    Mutant(
        "sqlite-commit-unwatched",
        "a commit does not look again, and may have gone to a removed log",
        (
            Change(
                "backends/sqlite/database.py",
                "        if not stands:\n            raise OutcomeUnknown",
                "        if False:\n            raise OutcomeUnknown",
            ),
        ),
        (LOGS + "test_a_commit_to_a_log_that_was_removed_meanwhile_is_unknown",),
    ),
    Mutant(
        "sqlite-log-unheld",
        "a process holds the log by SQLite's locks alone, which it loses",
        (
            Change(
                "backends/sqlite/held_file.py",
                "taken = lock_shared(self._descriptor, _SQLITE) and lock_shared",
                "taken = lock_shared",
            ),
        ),
        (LOGS + "test_a_leader_that_reads_its_own_database_keeps_its_log",),
    ),
    Mutant(
        "sqlite-index-unheld",
        "the same for the index of the log",
        (
            Change(
                "backends/sqlite/held_file.py",
                "and lock_shared(index, _SQLITE_INDEX)",
                "and True",
            ),
        ),
        (LOGS + "test_a_leader_that_reads_its_own_database_keeps_its_log",),
    ),
    Mutant(
        "sqlite-two-names",
        "a file with a hard link is opened",
        (Change("backends/sqlite/database.py", "                held.check_names()\n", ""),),
        (LOGS + "test_a_hard_link_is_refused_and_the_leader_goes_on",),
    ),
    Mutant(
        "sqlite-counted-revisions",
        "a database that lost its log gives versions twice",
        (
            Change(
                "backends/sqlite/rows.py",
                "step = 1 + secrets.randbelow(_LARGEST_STEP)",
                "step = 1",
            ),
        ),
        (LOGS + "test_a_leader_whose_log_was_removed_leads_no_more_beside_a_newcomer",),
    ),
    Mutant(
        "sqlite-forgets-with-the-store",
        "each store object observes other sessions anew",
        (
            Change(
                "backends/shared/renewals.py",
                "return _SIGHTINGS.setdefault((database, None if machine else clock), Sightings())",
                "return _SIGHTINGS.setdefault((database, clock), Sightings())",
            ),
        ),
        (
            "tests/regressions/test_short_waits.py::test_a_caller_that_waits_again_and_again_leads_after_a_stopped_leader",
        ),
    ),
    Mutant(
        "sqlite-ends-without-the-row",
        "a session that renewed after it was judged is ended",
        (
            Change(
                "backends/sqlite/store.py",
                "rows.end_session(row.id, renewals=row.renewals)",
                "rows.end_session(row.id)",
            ),
        ),
        (
            "tests/regressions/test_many_pipelines_in_one_file.py::test_a_session_that_renews_after_it_was_judged_lives_on",
        ),
    ),
)
