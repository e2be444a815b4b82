"""What keeps a batch right whose records Kafka has no more, and a pipeline whose broker is away."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

LOST: Final = "tests/kafka/test_lost_records.py::"

OF_KAFKA: Final = (
    Mutant(
        "lost-records-are-nothing",
        "nobody asks the broker whether it still has the records of a batch that runs again",
        (Change("inputs/query_inputs.py", "self._records.lost(planned.records))", "())"),),
        (
            LOST + "test_a_batch_that_runs_again_without_records_is_an_error_before_anything_is_retaken",
            LOST + "test_a_state_that_would_lack_records_of_its_table_is_an_error_until_an_operator_answers_for_it",
            LOST + "test_a_function_of_a_query_with_state_is_not_called_again_without_them",
            LOST + "test_records_of_a_new_partition_that_are_gone_are_named",
        ),
    ),
    Mutant(
        "short-state-goes-on",
        "a batch that the table has runs again without records, and the state lacks them from then on",
        (Change("checkpoints/batch_rules.py", "return keeps_state and repeated", "return False"),),
        (LOST + "test_a_state_that_would_lack_records_of_its_table_is_an_error_until_an_operator_answers_for_it",),
    ),
    Mutant(
        "lost-records-are-looked-for-too-early",
        "records that go while a batch runs again are not missed: its state lacks what the table has",
        (
            Change(
                "driver/batch_writer.py",
                "                    without = inputs.check(self._begun.inputs, batch=batch.id, written=False)\n",
                "                    inputs.check(self._begun.inputs, batch=batch.id, written=False)\n",
            ),
        ),
        on(LOST + "test_records_that_go_while_the_batch_runs_again_are_looked_for_after_its_evaluation", "after"),
    ),
    Mutant(
        "any-function-may-be-short",
        "a function of a query with state is called again with a part of the records",
        (Change("checkpoints/batch_rules.py", "return not keeps_state or names_batches", "return True"),),
        (LOST + "test_a_function_of_a_query_with_state_is_not_called_again_without_them",),
    ),
    Mutant(
        "a-short-batch-without-rows-is-not-noted",
        "an overtaken leader may commit the whole batch after its successor has gone on without its records",
        (Change("sinks/delta/sink.py", " or attempt.batch.short\n", "\n"),),
        (LOST + "test_a_late_commit_of_the_whole_batch_is_refused_where_the_short_batch_has_no_rows",),
    ),
    Mutant(
        "skipped-in-silence",
        "records that Spark skips are counted nowhere",
        (Change("driver/batch_writer.py", ":  # Spark may have read nothing\n", " and False:\n"),),
        (LOST + "test_removed_while_nobody_led_is_counted_where_the_source_tolerates_it",),
    ),
    Mutant(
        "spark-s-words-for-lost-records",
        "records that are gone in a first evaluation are a failure without a place and a fix",
        (Change("driver/batch_writer.py", "if LOSS in words_of(error):", "if False:"),),
        (LOST + "test_removed_while_nobody_led_is_an_error_that_names_them_in_every_member",),
    ),
    Mutant(
        "a-broker-away-ends-the-pipeline",
        "a source that does not answer is a failure of the query",
        (Change("driver/failures.py", "    if stream.has_read and any(", "    if False and any("),),
        (
            "tests/unit/driver/test_failures.py::test_a_source_that_does_not_answer_is_tried_again_only_where_it_was_read_before",
        ),
    ),
    Mutant(
        "a-lag-costs-a-write-a-batch",
        "the offsets behind are written to the store whenever they change",
        (Change("coordination/election.py", "who.behind == behind or ago_s < _BEHIND_S", "who.behind == behind"),),
        (
            "tests/unit/coordination/test_announcements.py"
            "::test_offsets_behind_alone_are_written_every_half_minute_at_most_and_with_every_change_of_state",
        ),
    ),
)
