"""What is weak in the doctor: faults that it does not find, and files that it leaves."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

CHECKS = "tests/unit/doctor/test_checks.py::"
SCRATCH = "tests/unit/doctor/test_scratch.py::"
RULES = "tests/unit/doctor/test_rules.py::"

OF_DOCTOR: Final = (
    Mutant(
        "doctor-and-stale-guards",
        "a store that judges no guard is good",
        (Change("doctor/of_store.py", "not _refuses(store, Exact(key, first)):", "False:"),),
        (CHECKS + "test_a_store_that_does_not_judge_guards",),
    ),
    Mutant(
        "doctor-and-second-writers",
        "a storage without exclusive create is good",
        (
            Change("doctor/of_storage.py", 'return "a second write replaced the first"', "return None"),
            Change("doctor/of_storage.py", "if sum(won) != 1:", "if sum(won) > 2:"),
        ),
        (CHECKS + "test_a_storage_without_exclusive_create",),
    ),
    Mutant(
        "doctor-leaves-its-folder",
        "the scratch folder stays after Ctrl-C",
        (
            Change(
                "doctor/scratch.py",
                "with suppress(StorageError):  # the error of the block says more\n            _remove(",
                "if not folder:\n            _remove(",
            ),
        ),
        (SCRATCH + "test_nothing_stays[KeyboardInterrupt]",),
    ),
    Mutant(
        "doctor-leaves-folders-of-the-killed",
        "the scratch folder of a killed doctor stays for a day",
        (Change("doctor/scratch.py", 'if here and not runs(int(found["pid"])):', "if not found:"),),
        (SCRATCH + "test_the_next_doctor_removes_the_folder_of_a_killed_one_and_no_other",),
    ),
    Mutant(
        "doctor-removes-foreign-folders",
        "the scratch folder of a doctor that runs is removed",
        (Change("doctor/scratch.py", "return now.timestamp() - ", "return 1e9 + now.timestamp() - "),),
        (SCRATCH + "test_the_next_doctor_removes_the_folder_of_a_killed_one_and_no_other",),
    ),
    Mutant(
        "doctor-and-two-clusters",
        "two clusters in one store URL are as good as one",
        (Change("backends/shared/answering.py", "if len(clusters) > 1:", "if len(clusters) > 9:"),),
        (RULES + "test_the_servers_of_a_store",),
    ),
    Mutant(
        "doctor-and-full-disks",
        "a disk without room for another file is good",
        (Change("doctor/rules.py", "if free.bytes < FULL_BYTES or", "if free.bytes < FULL_BYTES and"),),
        (CHECKS + "test_a_disk_without_room_for_another_file",),
    ),
)
