"""What is weak in the sink for PostgreSQL: zombies, pauses, attempts, doubts."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

DATABASE: Final = "sinks/postgres/database.py"
SINK: Final = "sinks/postgres/sink.py"
TESTS: Final = "tests/spark/sinks/test_postgres.py::"

OF_POSTGRES: Final = (
    Mutant(
        "postgres-takes-names-for-values",
        "a name with a % is a value of its statement",
        (Change(DATABASE, '.replace("%", "%%")', ""),),
        (TESTS + "test_columns_keys_and_tables_may_have_any_name",),
    ),
    Mutant(
        "postgres-copies-columns-by-name",
        "PySpark takes a column with a dot for the field of another column",
        (Change(SINK, "placed.mapInArrow", "rows.mapInArrow"),),
        (TESTS + "test_columns_keys_and_tables_may_have_any_name",),
    ),
    Mutant(
        "postgres-takes-a-batch-of-another-scope",
        "a second scope goes on from the copy that a first has adopted, and its batches count as those of the first",
        (Change(DATABASE, " and (l.scope = excluded.scope or l.batch < excluded.batch)", ""),),
        (TESTS + "test_a_copy_that_two_scopes_have_adopted_loses_no_rows_in_silence",),
    ),
    Mutant(
        "postgres-takes-lower-epochs",
        "the ledger takes a batch of a leader whose term another one has followed",
        (Change(DATABASE, "l.epoch <= excluded.epoch and ", ""),),
        (TESTS + "test_a_leader_that_was_paused_before_its_transaction_is_refused",),
    ),
    Mutant(
        "postgres-counts-batches-twice",
        "a batch that the table has is moved again",
        (Change(DATABASE, "repeated = before >= claim.batch", "repeated = before > claim.batch"),),
        (TESTS + "test_each_batch_is_added_once",),
    ),
    Mutant(
        "postgres-waits-for-who-is-silent",
        "a leader that is paused inside its transaction keeps its locks until it wakes",
        (Change(DATABASE, "'idle_in_transaction_session_timeout', ", ""),),
        (TESTS + "test_a_leader_that_is_paused_inside_its_transaction_is_thrown_out",),
    ),
    Mutant(
        "postgres-waits-for-the-dead",
        "a leader that died in a long statement keeps its locks until the statement ends",
        (Change(DATABASE, "'lock_timeout', 'client_connection_check_interval')", "'lock_timeout')"),),
        (TESTS + "test_a_leader_that_died_in_a_long_statement_keeps_nobody_waiting",),
    ),
    Mutant(
        "postgres-moves-each-attempt",
        "rows of a task that ran twice are moved twice",
        (Change(DATABASE, 'sql.SQL("from {} where " + _ACCEPTED)', 'sql.SQL("from {} where true or " + _ACCEPTED)'),),
        (TESTS + "test_the_rows_of_a_task_that_ran_twice_count_once",),
    ),
    Mutant(
        "postgres-loses-staged-rows",
        "a staging table that a crash has emptied counts as a batch without rows",
        (Change(DATABASE, "if moved != staged.rows:", "if moved > staged.rows:"),),
        (TESTS + "test_staged_rows_that_went_are_no_empty_batch",),
    ),
    Mutant(
        "postgres-forgets-that-it-has-committed",
        "a commit whose reply was lost counts as a batch that the table had before",
        (Change(SINK, "            sent = True\n", ""),),
        (TESTS + "test_a_commit_whose_reply_is_lost_counts_once",),
    ),
    Mutant(
        "postgres-shows-rows-before-the-plan",
        "the rows of a batch are moved before its plan is in the store",
        (Change(SINK, "        planned()\n", ""),),
        (TESTS + "test_a_leader_that_was_paused_before_its_transaction_is_refused",),
    ),
)
