"""What is weak in the sinks for databases, and in that for PostgreSQL: zombies, pauses, attempts, doubts."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant, on

DATABASE: Final = "sinks/postgres/database.py"
RULES: Final = "sinks/sql/ledger_rules.py"
SINK: Final = "sinks/sql/sink.py"
TABLE: Final = "sinks/sql/table.py"
TABLES: Final = "sinks/sql/staged_tables.py"
TESTS: Final = "tests/spark/sinks/test_sql.py::"
COLUMNS: Final = "tests/spark/sinks/test_sql_columns.py::"
OF_RULES: Final = "tests/unit/sinks/test_sql_ledger_rules.py::"
ALONE: Final = "tests/spark/sinks/test_postgres.py::"

OF_POSTGRES: Final = (
    Mutant(
        "postgres-waits-for-who-is-silent",
        "a leader that is paused inside its transaction keeps its locks until it wakes",
        (Change(DATABASE, "'idle_in_transaction_session_timeout', ", ""),),
        (TESTS + "test_a_leader_that_is_paused_inside_its_transaction_is_thrown_out[postgres]",),
    ),
    Mutant(
        "postgres-waits-for-the-dead",
        "a leader that died in a long statement keeps its locks until the statement ends",
        (Change(DATABASE, "'lock_timeout', 'client_connection_check_interval')", "'lock_timeout')"),),
        (ALONE + "test_a_leader_that_died_in_a_long_statement_keeps_nobody_waiting",),
    ),
    Mutant(
        "postgres-moves-each-attempt",
        "rows of a task that ran twice are moved twice",
        (Change(DATABASE, 'return f"({PARTITION}, {ATTEMPT}) in (', 'return f"true or ({PARTITION}, {ATTEMPT}) in ('),),
        (TESTS + "test_the_rows_of_a_task_that_ran_twice_count_once[postgres]",),
    ),
)

OF_SQL: Final = (
    Mutant(
        "sql-takes-names-for-values",
        "a name with a % is a value of its statement",
        (Change(TABLE, '.replace("%", "%%")', ""),),
        (COLUMNS + "test_columns_keys_and_tables_may_have_any_name",),
    ),
    Mutant(
        "sql-copies-columns-by-name",
        "PySpark takes a column with a dot for the field of another column",
        (Change(SINK, "placed.mapInArrow", "rows.mapInArrow"),),
        (COLUMNS + "test_columns_keys_and_tables_may_have_any_name",),
    ),
    Mutant(
        "sql-takes-a-batch-of-another-scope",
        "a second scope goes on from the copy that a first has adopted, and its batches count as those of the first",
        (
            Change(
                RULES, "        if row.batch >= claim.batch:\n            raise", "        if False:\n            raise"
            ),
        ),
        (
            OF_RULES + "test_a_batch_that_is_refused",
            TESTS + "test_a_copy_that_two_scopes_have_adopted_loses_no_rows_in_silence",
        ),
    ),
    Mutant(
        "sql-compares-epochs-of-two-scopes",
        "a query that moves to another scope is refused until that scope has had as many leaders",
        (
            Change(
                RULES,
                "    if row.scope != claim.scope:\n",
                "    if row.scope != claim.scope and row.epoch <= claim.epoch:\n",
            ),
        ),
        (OF_RULES + "test_a_batch_is_taken_once", TESTS + "test_a_scope_that_another_has_moved_to_goes_on"),
    ),
    Mutant(
        "sql-takes-the-batch-of-another-scope-for-its-own",
        "a writer whose reply was lost takes the batch of another scope, under the same epoch, for its own",
        (
            Change(
                RULES,
                "if row.scope != claim.scope:",
                "if row.scope != claim.scope and not (claim.sent and row.epoch == claim.epoch):",
            ),
        ),
        (OF_RULES + "test_a_batch_that_is_refused",),
    ),
    Mutant(
        "sql-takes-lower-epochs",
        "the ledger takes a batch of a leader whose term another one has followed",
        (Change(RULES, "    if row.epoch > claim.epoch:", "    if row.epoch > claim.epoch + 99:"),),
        (TESTS + "test_a_leader_that_was_paused_before_its_transaction_is_refused",),
    ),
    Mutant(
        "sql-reads-the-ledger-without-its-lock",
        "a leader that is paused behind its look at the ledger adds a batch that its successor has added",
        (Change("sinks/sql/table.py", " for update", ""),),
        on(TESTS + "test_a_leader_that_is_paused_at_any_step_adds_its_batch_once", "postgres-2-True"),
    ),
    Mutant(
        "sql-counts-batches-twice",
        "a batch that the table has is moved again",
        (Change(RULES, "    had = row.batch >= claim.batch", "    had = row.batch > claim.batch"),),
        (TESTS + "test_each_batch_is_added_once",),
    ),
    Mutant(
        "sql-goes-on-in-an-older-copy",
        "a database that was restored from an older copy takes the next batch, and lacks those between",
        (Change(RULES, "    if 0 <= row.batch < claim.batch - 1:", "    if 0 > row.batch < claim.batch - 1 > 10**9:"),),
        (TESTS + "test_a_database_that_was_restored_from_an_older_copy_is_refused",),
    ),
    Mutant(
        "sql-loses-staged-rows",
        "a staging table that a crash has emptied counts as a batch without rows",
        (Change(TABLE, "if moved != staged.rows:", "if moved > staged.rows:"),),
        (TESTS + "test_staged_rows_that_went_are_no_empty_batch",),
    ),
    Mutant(
        "sql-forgets-that-it-has-committed",
        "a commit whose reply was lost counts as a batch that the table had before",
        (Change(SINK, "            sent = True\n", ""),),
        (TESTS + "test_a_commit_whose_reply_is_lost_counts_once",),
    ),
    Mutant(
        "sql-shows-rows-before-the-plan",
        "the rows of a batch are moved before its plan is in the store",
        (Change(SINK, "        planned()\n", ""),),
        (TESTS + "test_a_leader_that_was_paused_before_its_transaction_is_refused",),
    ),
    Mutant(
        "sql-shares-staging-tables-between-scopes",
        "two scopes that have adopted one copy write into one staging table",
        (Change(TABLES, "f'{scope} {query_id}'", "query_id"),),
        ("tests/unit/sinks/test_sql.py::test_the_name_of_a_staging_table_fits_and_tells_attempts_apart",),
    ),
    Mutant(
        "postgres-waits-two-hours-for-a-host-that-is-gone",
        "a batch whose server lost its power waits as long as Linux does",
        (Change(DATABASE, "return {**_SILENT_LINE, **found}", "return found"),),
        (ALONE + "test_a_host_that_is_gone_is_noticed",),
    ),
)
