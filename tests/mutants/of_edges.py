"""What is weak at the edges of a batch: when it is done, run again, and whether its inputs are there.

The letters are those of the rules: c, a batch is done if its run directory says so; a, what is run again is retaken
first; k, planned inputs are looked for; y, whoever finished a batch is gone on from; t, the store is asked.
`make soak ARGS="--without rule-c"` runs the soak with one of them.
"""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

RULES = "checkpoints/batch_rules.py"
WRITER = "driver/batch_writer.py"
TAKEOVER = "takeover/query_takeover.py"
RETAKING = "tests/spark/test_retaking.py::"
EDGES = "tests/unit/checkpoints/test_batch_edges.py::"
BY_USERS = "tests/regressions/test_edges_of_batches.py::"
TOLD = "tests/regressions/test_whose_failure_is_told.py::"

OF_EDGES: Final = (
    Mutant(
        "rule-c",
        "a batch that Spark has noted as done is run again",
        (Change(RULES, "    if has_commit(at):\n", "    if has_commit(at) and False:\n"),),
        (
            RETAKING + "test_a_batch_that_is_done_is_not_retaken",
            BY_USERS + "test_a_function_is_not_called_again_for_a_batch_that_is_done",
        ),
    ),
    Mutant(
        "rule-a",
        "a batch is run again without a write of the term that does it",
        (
            Change(
                RULES,
                "        return Takeover(at, done=False, recorded=True)\n",
                "        return Takeover(at, done=False, recorded=False)\n",
            ),
            Change(
                "checkpoints/store.py",
                "            if (newest.epoch, newest.run_directory) != ",
                "            if False and 1 != ",
            ),
        ),
        (
            RETAKING + "test_a_batch_that_is_run_again_is_retaken_first",
            EDGES + "test_no_interleaving_makes_a_wrong_output_or_stands_still",
        ),
    ),
    Mutant(
        "rule-k",
        "nobody looks whether the inputs of a batch that is run again are there",
        (
            Change(RULES, "    if not inputs_gone():\n", "    if True:\n"),
            Change(
                RULES, "return Asked(inputs=retaken, term=not retaken)", "return Asked(inputs=False, term=not retaken)"
            ),
        ),
        (
            RETAKING + "test_inputs_that_are_gone_are_told_before_anything_is_retaken",
            RETAKING + "test_inputs_that_go_while_they_are_read_are_told_before_the_sink_commits",
            RETAKING + "test_of_a_function_it_is_told_that_the_target_may_hold_a_short_batch",
            BY_USERS + "test_planned_inputs_that_are_gone_are_named_and_it_goes_on_when_they_are_back",
            EDGES + "test_no_interleaving_makes_a_wrong_output_or_stands_still",
        ),
    ),
    Mutant(
        "rule-y",
        "a run directory in which an overtaken leader has finished the batch is not looked for",
        (Change(RULES, "    for other in done_in():\n", "    for other in ():\n"),),
        (
            *on(RETAKING + "test_a_run_directory_in_which_an_overtaken_leader_has_finished_is_gone_on_from", "True"),
            EDGES + "test_no_interleaving_makes_a_wrong_output_or_stands_still",
        ),
    ),
    Mutant(
        "rule-t",
        "Spark may note a first evaluation as done when the term is over",
        (Change(RULES, "return Asked(inputs=retaken, term=not retaken)", "return Asked(inputs=retaken, term=False)"),),
        (RETAKING + "test_the_store_is_asked_before_spark_may_note_a_first_evaluation_as_done",),
    ),
    Mutant(
        "half-a-seed-counts-as-done",
        "a run directory without `metadata` is gone on from, though its seed may have no state",
        (
            Change(
                TAKEOVER,
                'same = decode_query_id(directory.read_text("metadata"), where=directory.where("metadata"))',
                "same = newest.query_id",
            ),
        ),
        on(RETAKING + "test_a_run_directory_in_which_an_overtaken_leader_has_finished_is_gone_on_from", "False"),
    ),
    Mutant(
        "a-name-is-a-note",
        "a batch is done where `commits/N` is there, whatever is in it: nobody can take over after a loss of power",
        (
            Change(
                "rundirs/run_directory.py",
                "        decode_commit(directory.read_text(path), where=directory.where(path))\n",
                "        directory.read(path)\n",
            ),
        ),
        (
            *on(RETAKING + "test_a_note_that_does_not_decode_is_none_and_its_batch_is_run_again", "v1"),
            *on(RETAKING + "test_nobody_has_finished_a_batch_whose_note_does_not_decode", "v1"),
            BY_USERS + "test_a_note_of_the_last_batch_that_lost_its_content",
        ),
    ),
    Mutant(
        "calls-on-an-old-word",
        "a function is called on what the plan's commit said, however long ago",
        (Change("sinks/foreach_batch.py", "        batch.check()\n        call = ", "        call = "),),
        (RETAKING + "test_the_store_is_asked_before_a_function_is_called_and_from_inside",),
    ),
    Mutant(
        "tells-what-came-of-an-end",
        "the error of a query that was stopped is told in place of the one for which it was",
        (
            Change(
                "driver/failures.py",
                "    causes = [stream for stream in streams if stream.name in failed]\n",
                "    causes = streams\n",
            ),
        ),
        (
            "tests/unit/driver/test_failures.py::test_what_ended_before_the_others_were_stopped_is_the_reason",
            TOLD + "test_the_query_that_failed_first",
        ),
    ),
    Mutant(
        "hides-a-short-batch",
        "a leader that is asked to end does not say that a target may hold a short batch",
        (
            Change(
                "driver/spark_driver.py",
                "        if (short := short_batch(streams)) is not None:\n            raise short\n",
                "",
            ),
        ),
        (TOLD + "test_a_short_batch_of_a_leader_that_is_asked_to_end",),
    ),
    Mutant(
        "sweeps-what-may-be-finished",
        "a run directory goes in which an overtaken leader may still finish the newest batch",
        (Change(RULES, "    return not is_done and has_plan\n", "    return False\n"),),
        (
            "tests/unit/cleanup/test_claims.py::"
            "test_what_an_overtaken_leader_may_still_finish_stays_until_the_batch_is_done",
            EDGES + "test_no_interleaving_makes_a_wrong_output_or_stands_still",
        ),
    ),
    Mutant(
        "guesses-the-folders",
        "line i of the offsets is taken for folder i, also where a source is read twice",
        (
            Change(
                WRITER,
                "            self._folders = source_folders_of(self._query())\n"
                "            self.sources = sources_beside(self._folders, self._declared.sources)\n",
                "            self._folders = ()\n",
            ),
        ),
        on(BY_USERS + "test_one_folder_that_is_read_twice_beside_others_with_equal_offsets", "1", "2"),
    ),
    Mutant(
        "windows-wait-for-new-data",
        "a takeover leaves the batch without data out that closes the windows of the last batch, as Spark does",
        (Change("takeover/query_takeover.py", " if without_data else None", " if not without_data else None"),),
        on(RETAKING + "test_the_batch_that_closes_the_windows_of_the_last_batch_is_planned", "None-True"),
    ),
)
