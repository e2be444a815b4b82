"""What is weak in how a pipeline ends for good: its result, and the cleanup after it."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

MEMBER = "agent/member.py"
QUERIES = "driver/running_queries.py"
CLEANER = "cleanup/cleaner.py"
PLAN = "cleanup/plan.py"
DISKS = "storage/local.py"
ALL = ("memory", "sqlite", "zookeeper", "etcd")
FOLDER = "link/driver_folder.py"
DRIVERS = "tests/unit/link/test_driver_folder.py::"
ENDS = "tests/unit/agent/test_member_results.py::"
AT_ONCE = "tests/spark/test_idle_ends.py::"
IDLE = "tests/regressions/test_failures_after_idleness.py::"
RESULTS = "tests/unit/results/test_store.py::"
CLEANING = "tests/unit/cleanup/test_cleaner.py::"
LEAVINGS = "tests/unit/cleanup/test_ended_pipeline.py::"

OF_ENDS: Final = (
    Mutant(
        "cleanup-before-the-result",
        "what the pipeline left is removed before it is written down that it has ended",
        (
            Change(
                MEMBER,
                "            result = self._results.write_dirty(term, result)\n",
                "            self._driver.clean(term, stop=stop)\n"
                "            result = self._results.write_dirty(term, result)\n",
            ),
        ),
        (ENDS + "test_nothing_is_cleaned_up_while_the_result_is_not_durable",),
    ),
    Mutant(
        "a-check-empties-the-log",
        "the check of a log at a start removes the lines of the runs before",
        (Change("assembly.py", 'with open(path, "ab"):', 'with open(path, "wb"):'),),
        ("tests/unit/test_assembly.py::test_a_log_that_was_there_stays_as_it_was",),
    ),
    Mutant(
        "runs-what-has-ended",
        "a leader does not look for a result before it leads",
        (
            Change(
                MEMBER,
                "        result = self._results.read(term)\n        if result is None:\n",
                "        result = None\n        if result is None:\n",
            ),
        ),
        on(ENDS + "test_a_dirty_result_is_cleaned_up_and_nothing_is_run", "True", "False"),
    ),
    Mutant(
        "every-end-is-for-good",
        "a query that failed, or a member that was stopped, ends the pipeline for good",
        (Change(MEMBER, "if ended is not Ended.IDLE or not self._conduct.final:", "if not self._conduct.final:"),),
        (
            ENDS + "test_an_end_that_is_not_for_good_has_no_result",
            *on(ENDS + "test_a_failure_without_a_reason_is_an_error_all_the_same", "True"),
        ),
    ),
    Mutant(
        "idle-is-the-end",
        "what becomes of a query after it was idle once is not looked at any more",
        (
            Change(QUERIES, "if not stream.refused and (", "if name not in self._idle and not stream.refused and ("),
            Change(QUERIES, "are_active = all(self._queries[name].isActive for name in rest)", "are_active = True"),
        ),
        (
            AT_ONCE + "test_a_query_that_was_idle_once_is_watched_on",
            *on(IDLE + "test_a_query_that_fails_after_it_was_idle_fails_the_run", "offsets"),
        ),
    ),
    Mutant(
        "idle-in-turn",
        "a query that was idle once counts as idle, whatever it does now",
        (
            Change(
                QUERIES, "if not all(idle.get(name) == counts for name in rest):", "if not idle.keys() >= set(rest):"
            ),
        ),
        (AT_ONCE + "test_it_is_idle_only_when_every_query_is_idle_at_one_moment",),
    ),
    Mutant(
        "idle-by-an-old-look",
        "a query counts as idle though another, which it may read, has written since it looked",
        (
            Change(
                QUERIES,
                "if not all(idle.get(name) == counts for name in rest):",
                "if not all(name in idle and idle[name][name] == counts[name] for name in rest):",
            ),
            Change(QUERIES, "and self._counts() == found:", "and stream.resting == found[name]:"),
        ),
        (AT_ONCE + "test_a_query_looks_again_after_the_last_batch_of_another_which_may_be_its_source",),
    ),
    Mutant(
        "a-batch-after-the-idle-end",
        "a query may begin a batch between the look that found all idle and their finish",
        (Change(QUERIES, "if any(stream.resting != counts[stream.name] for stream in streams):", "if False:"),),
        (AT_ONCE + "test_a_batch_that_began_at_the_last_moment_is_waited_for",),
    ),
    Mutant(
        "idle-before-it-is-noted",
        "a run ends well though Spark has not noted its last batch as done",
        (Change("driver/running_queries.py", "if all(stream.last_is_done for stream in streams):", "if True:"),),
        (AT_ONCE + "test_an_idle_end_waits_until_spark_has_noted_the_last_batch_however_long_that_takes",),
    ),
    Mutant(
        "failure-without-a-reason",
        "a driver that says that a query failed, and not why, has ended well",
        (Change(MEMBER, "        if ended is Ended.FAILED:", "        if False:"),),
        on(ENDS + "test_a_failure_without_a_reason_is_an_error_all_the_same", "True", "False"),
    ),
    Mutant(
        "last-result-wins",
        "a result that stands is replaced",
        (
            Change(
                "results/store.py",
                "            return standing\n",
                "            self._handles.remove(term, _NAME)\n            return self.write_dirty(term, result)\n",
            ),
        ),
        on(RESULTS + "test_the_first_writer_wins", *ALL),
    ),
    Mutant(
        "removes-without-asking",
        "nobody asks whether the term stands after the storage was listed: what a later leader made is removed, too",
        (Change(CLEANER, "                self._check(term)\n", ""),),
        (
            *on(
                LEAVINGS + "test_a_leader_that_is_paused_in_its_cleanup_removes_nothing_of_a_later_run",
                *(f"{store}-before it asks" for store in ALL),
            ),
            CLEANING + "test_nothing_goes_that_was_listed_after_the_term_was_over",
            *on(
                "tests/unit/cleanup/test_claims.py::"
                "test_a_leader_that_is_paused_in_its_sweep_removes_nothing_that_anybody_needs",
                *(f"{store}-before it asks" for store in ALL),
            ),
        ),
    ),
    Mutant(
        "blobs-under-a-lock",
        "what a locked checkpoint names goes although the checkpoint stays",
        (Change(PLAN, "    return tuple(name for name in row.needs if name in remaining)\n", "    return ()\n"),),
        on(LEAVINGS + "test_a_locked_checkpoint_keeps_its_blob_and_the_run_directories", *ALL),
    ),
    Mutant(
        "follows-links",
        "a symbolic link is listed as the folder that it points to",
        (
            Change(DISKS, "entry.is_dir(follow_symlinks=False), size", "entry.is_dir(), size"),
            Change(DISKS, "        if path and os.path.islink(full):", "        if False:"),
        ),
        ("tests/unit/storage/test_storage.py::test_a_link_is_removed_as_a_link",),
    ),
    Mutant(
        "removes-what-is-filled",
        "a folder that was empty is removed with what somebody has put there since",
        (Change(DISKS, "            os.rmdir(self._full(path))\n", "            shutil.rmtree(self._full(path))\n"),),
        (
            "tests/unit/sinks/test_delta_staged_attempts.py::test_a_folder_that_a_later_leader_fills_meanwhile_stays",
            "tests/unit/storage/test_storage.py::test_only_an_empty_folder_goes_by_the_other_word[local]",
        ),
    ),
    Mutant(
        "folders-of-living-drivers",
        "the start of a member removes the temporary folders of drivers that run",
        (
            Change(
                FOLDER,
                "        if take_lock(lock):\n            _remove(path)",
                "        if True:\n            _remove(path)",
            ),
        ),
        (
            DRIVERS + "test_one_is_held_as_long_as_the_driver_lives_though_its_agent_has_ended",
            DRIVERS + "test_the_next_start_removes_those_that_nobody_holds_whoever_they_were",
        ),
    ),
    Mutant(
        "folder-that-was-taken",
        "a driver starts with a folder that somebody else has removed as it was made",
        (
            Change(
                "file_locks.py", "if take_lock(descriptor) and is_at(path, descriptor):", "if take_lock(descriptor):"
            ),
        ),
        (DRIVERS + "test_one_that_was_taken_for_abandoned_as_it_was_made_is_made_again",),
    ),
    Mutant(
        "what-killed-drivers-leave",
        "the temporary folder of a driver that died stays",
        (Change("agent/driver_process.py", "        self.child.clean_up()  #", "        #"),),
        ("tests/agents/test_driver_process.py::test_the_temporary_folder_of_a_driver_goes_with_it",),
    ),
    Mutant(
        "denied-and-waiting",
        "a member that never was permitted its work tries again for ever",
        (Change(MEMBER, "isinstance(away, AccessDenied) and not self._was_permitted", "False"),),
        ("tests/unit/agent/test_member.py::test_a_member_that_may_not_do_its_work_ends_at_once[commit]",),
    ),
)
