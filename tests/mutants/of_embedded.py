"""What is weak in the stores within a process and on one machine."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

CONTRACT = "tests/contract/test_conformance.py::"
ZOMBIE = "tests/contract/test_zombies.py::test_the_write_of_a_woken_leader_is_refused_by_the_store"
AFTER = "tests/faults/test_fencing.py::test_on_every_store_a_write_after_the_term_is_refused"

OF_EMBEDDED: Final = (
    Mutant(
        "memory-fence-by-existence",
        "any record at the key will do",
        (
            Change(
                "backends/memory.py",
                "return record is not None and record.version == guard.version",
                "return record is not None",
            ),
        ),
        (*on(AFTER, "memory-successor"), CONTRACT + "TestMemory::test_each_guard_holds_and_fails"),
    ),
    Mutant(
        "sqlite-fence-by-existence",
        "any record at the key will do",
        (
            Change(
                "backends/sqlite/rows.py",
                "return row is not None and self._version(row[0]) == guard.version",
                "return row is not None",
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
)
