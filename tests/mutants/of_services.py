"""What is weak in the handles and records of services that lead and read in their own processes."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

LEADING = "in_process/leading.py"
UPKEEP = "in_process/upkeep.py"
LED = "tests/unit/in_process/test_handles.py::"
READ = "tests/unit/in_process/test_reading.py::"
ENDED = "tests/unit/cleanup/test_services.py::"

OF_SERVICES: Final = (
    Mutant(
        "names-of-users-meet-ours",
        "an area of a user lies among the records of Tenure",
        (Change("handles/areas.py", 'return HANDLES.child(checked_name(name, of="area"))', "return Key(name)"),),
        (LED + "test_names_of_users_do_not_meet_the_records_of_tenure",),
    ),
    Mutant(
        "late-blob-of-a-service-stays",
        "a refused write leaves its bytes in the storage",
        (
            Change(
                "handles/store.py",
                "            if not lost.write_is_unknown:\n                self._discard(blob)\n",
                "",
            ),
        ),
        (LED + "test_a_late_add_is_refused_and_its_blob_is_gone",),
    ),
    Mutant(
        "service-marks-no-storage",
        "a leadership in a process of its own leaves no mark in its storage",
        (Change(UPKEEP, "    owner.own(term)\n", ""),),
        (LED + "test_each_leadership_marks_its_storage",),
    ),
    Mutant(
        "service-asks-for-no-owner",
        "a write goes to a storage that another store has taken",
        (Change(LEADING, "            self._marks.check()\n", "            return\n"),),
        (LED + "test_a_storage_that_another_store_takes_takes_no_more_writes",),
    ),
    Mutant(
        "service-sweeps-nothing",
        "the bytes of a service that died stay for ever",
        (
            Change(UPKEEP, "    sweeper.start(ready=lambda: True)\n", ""),
            Change(UPKEEP, "        sweeper.last(stop=after(_LAST, clock=context.clock))\n", "        return\n"),
        ),
        (
            LED + "test_the_blob_of_a_leader_that_died_is_swept_by_the_next",
            LED + "test_a_locked_handle_stays_and_what_a_reader_reads_stays",
        ),
    ),
    Mutant(
        "service-in-an-ended-scope",
        "a service keeps handles where a cleanup removes all",
        (Change(UPKEEP, "    _refuse_ended(context, term)\n", ""),),
        (LED + "test_a_scope_whose_pipeline_has_ended_takes_no_handles",),
    ),
    Mutant(
        "lock-lost-in-silence",
        "a reader whose lock went before its block ended is not told",
        (Change("in_process/handles.py", "        if not stood:\n", "        if False:\n"),),
        (
            READ + "test_a_lock_that_an_operator_took_is_told_at_the_end_of_the_block",
            READ + "test_a_reader_that_was_paused_for_longer_than_the_ttl_is_told_and_goes_on",
        ),
    ),
    Mutant(
        "blobs-go-before-their-handles",
        "the end of a pipeline removes the bytes of a handle that a reader has locked",
        (
            Change(
                "cleanup/plan.py",
                'needs=(CHECKPOINTS, HANDLES),\n        area=Area("blobs"',
                'needs=(CHECKPOINTS,),\n        area=Area("blobs"',
            ),
        ),
        on(ENDED + "test_the_end_of_a_pipeline_waits_for_the_reader_of_a_handle", "memory", "sqlite"),
    ),
)
