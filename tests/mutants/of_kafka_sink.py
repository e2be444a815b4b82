"""What is weak in the sink for Kafka."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

RULES_OF: Final = "sinks/kafka/ledger_rules.py"
WRITER: Final = "sinks/kafka/writer.py"
LEDGER: Final = "sinks/kafka/ledger.py"
CLUSTER: Final = "sinks/kafka/cluster.py"
RULES: Final = "tests/unit/sinks/test_kafka_ledger_rules.py::"
ZOMBIES: Final = "tests/kafka/test_sink_zombies.py::"
FAULTS: Final = "tests/kafka/test_sink_faults.py::"
LEDGERS: Final = "tests/kafka/test_sink_ledgers.py::"
ROWS: Final = "tests/kafka/test_sink.py::"

OF_KAFKA_SINK: Final = (
    Mutant(
        "a-ledger-fences-nobody",
        "a woken leader whose successor has written goes on under its lower epoch",
        (Change(RULES_OF, "if newest.epoch > batch.epoch:", "if False:"),),
        (
            RULES + "test_other_batches_are_refused",
            ZOMBIES + "test_a_zombie_that_opens_after_its_successor_stops_nobody",
            ZOMBIES + "test_a_process_that_was_stopped_before_its_commit_is_fenced",
            *on(ZOMBIES + "test_a_leader_that_was_paused_in_a_batch_is_fenced", "before the commit-1"),
        ),
    ),
    Mutant(
        "a-ledger-is-read-too-early",
        "the ledger is read before the opening, and a batch that is committed between is written twice",
        (
            Change(
                WRITER,
                "            producer = self._fencing()\n"
                "            self._newest = self._ledger.newest(batch.query_id, patience_s=self._patience.answer_s)\n",
                "            self._newest = self._ledger.newest(batch.query_id, patience_s=self._patience.answer_s)\n"
                "            producer = self._fencing()\n",
            ),
        ),
        on(ZOMBIES + "test_a_leader_that_was_paused_while_it_opened_is_fenced", "after the look-up"),
    ),
    Mutant(
        "a-ledger-is-not-claimed",
        "a leader that has written no batch yet is no leader to a woken leader",
        (Change(WRITER, "            claim = claimed(self._newest, batch)\n", "            claim = None\n"),),
        (ZOMBIES + "test_a_leader_claims_its_ledger_before_it_has_a_batch_to_write",),
    ),
    Mutant(
        "each-batch-is-new",
        "a batch that the ledger has is written again",
        (Change(RULES_OF, "if newest.batch >= batch.id:", "if False:"),),
        (
            RULES + "test_a_batch_is_written_on_top_of_the_batch_before",
            ZOMBIES + "test_a_batch_counts_once_for_any_number_of_leaders",
            FAULTS + "test_a_commit_that_nobody_answers_is_looked_up",
            FAULTS + "test_a_broker_that_hangs_in_the_commit_is_asked_again",
            ROWS + "test_each_batch_is_there_once_for_sparks_own_source",
        ),
    ),
    Mutant(
        "a-batch-in-doubt-is-anothers",
        "a batch whose commit was not answered counts as one that Kafka had before, and its state as short",
        (Change(RULES_OF, "return newest.attempt != attempt", "return True"),),
        (FAULTS + "test_a_commit_that_nobody_answers_is_looked_up",),
    ),
    Mutant(
        "an-open-transaction-hides-the-ledger",
        "the ledger is read up to the first open transaction of another query, and a record behind it is overlooked",
        (Change(CLUSTER, "IsolationLevel.READ_UNCOMMITTED", "IsolationLevel.READ_COMMITTED"),),
        (LEDGERS + "test_an_open_transaction_of_another_query_hides_no_record",),
    ),
    Mutant(
        "a-late-commit-ends-the-next-batch",
        "a producer serves on that may have sent a commit twice, and the late copy commits half of the next batch",
        (Change(WRITER, "if producer.disturbed or wanted > self._timeout:", "if wanted > self._timeout:"),),
        (FAULTS + "test_a_late_copy_of_a_commit_ends_no_later_transaction",),
    ),
    Mutant(
        "a-ledger-may-lack-batches",
        "nobody notices that the topic was restored from an older copy",
        (Change(RULES_OF, "if 0 <= newest.batch < batch.id - 1:", "if False:"),),
        (LEDGERS + "test_a_topic_that_was_restored_from_an_older_copy_is_refused",),
    ),
    Mutant(
        "a-ledger-may-be-removed",
        "nobody notices that the ledger was removed under a leader",
        (Change(WRITER, "            refuse_older(self._newest, self._known, where=str(self._ledger))\n", ""),),
        (LEDGERS + "test_a_ledger_that_was_removed_is_noticed",),
    ),
    Mutant(
        "a-ledger-may-forget",
        "a ledger whose records go with time is taken",
        (
            Change(
                CLUSTER,
                'if (policy := self._policy(topic)) != "compact":',
                "if (policy := self._policy(topic)) is None:",
            ),
        ),
        (LEDGERS + "test_a_ledger_that_may_forget_is_refused",),
    ),
    Mutant(
        "a-ledger-ends-in-its-tail",
        "only the newest records are read, and a query that others have followed is new",
        (Change(LEDGER, "                if first == low:\n", "                if True:\n"),),
        (LEDGERS + "test_a_ledger_with_records_of_others_at_its_end_is_read",),
    ),
    Mutant(
        "a-copy-for-two-scopes",
        "a batch of another scope counts as the query's own, and the rows of one of them are lost",
        (
            Change(
                RULES_OF,
                "            return None\n        raise QueryFailed(\n",
                "            return None\n        return True\n        raise QueryFailed(\n",
            ),
        ),
        on(ZOMBIES + "test_a_copy_that_two_scopes_have_adopted_loses_no_rows_in_silence", "9"),
    ),
    Mutant(
        "old-news-of-a-topic",
        "a partition that was made lately is refused by a producer that does not know it",
        (Change(WRITER, "            if fresh:\n", "            if True:\n"),),
        (FAULTS + "test_a_partition_that_was_added_later_is_found",),
    ),
    Mutant(
        "a-failed-batch-stays-open",
        "a transaction that failed is not aborted, and readers wait for its timeout",
        (Change("sinks/kafka/producer.py", "if not committing or _asks", "if _asks"),),
        (ZOMBIES + "test_a_batch_that_fails_in_the_middle_keeps_no_reader_waiting",),
    ),
    Mutant(
        "a-refused-batch-stays-open",
        "a transaction with a refused record is not aborted, as its commit was asked for, and readers wait",
        (Change("sinks/kafka/producer.py", "not committing or _asks_for_abort(error)", "not committing"),),
        on(
            FAULTS + "test_a_record_that_the_cluster_refuses_is_one_error",
            "record3-a compacted topic takes no record without a key",
        ),
    ),
    Mutant(
        "another-hash-of-keys",
        "a key moves to another partition when a job moves here",
        (Change("sinks/kafka/settings.py", '"partitioner": "murmur2_random"', '"partitioner": "consistent_random"'),),
        (ROWS + "test_keys_lie_where_sparks_own_sink_puts_them",),
    ),
    Mutant(
        "rows-before-the-plan",
        "the rows are sent before the batch is planned",
        (Change("sinks/kafka/sink.py", "            planned()\n", ""),),
        (ROWS + "test_nothing_is_sent_before_the_plan",),
    ),
)
