"""What is weak in the sink for MySQL: changed values, keys that are one, pauses, ends of servers."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

COLUMNS: Final = "sinks/mysql/columns.py"
DATABASE: Final = "sinks/mysql/database.py"
INSERTING: Final = "sinks/mysql/inserting.py"
BOTH: Final = "tests/spark/sinks/test_sql.py::"
TESTS: Final = "tests/spark/sinks/test_mysql.py::"
UNIT: Final = "tests/unit/sinks/test_mysql.py::"

OF_MYSQL: Final = (
    Mutant(
        "mysql-waits-for-who-is-silent",
        "a leader that is paused inside its transaction keeps its locks until it wakes",
        (Change(DATABASE, '    "wait_timeout",\n', ""),),
        (BOTH + "test_a_leader_that_is_paused_inside_its_transaction_is_thrown_out[mariadb]",),
    ),
    Mutant(
        "mysql-is-as-strict-as-the-server",
        "a server without strict mode cuts values off, and says so in a warning that nobody reads",
        (
            Change(DATABASE, "set session sql_mode = '{_STRICT}', time_zone", "set session time_zone"),
            Change(DATABASE, "        if cursor.warning_count:\n", "        if False:\n"),
            Change(INSERTING, "    if cursor.warning_count:\n", "    if False:\n"),
        ),
        (TESTS + "test_a_value_that_would_not_stay_as_it_is_fails_the_batch",),
    ),
    Mutant(
        "mysql-reads-no-warnings",
        "a value that loses digits or spaces with a note of the server is stored",
        (Change(DATABASE, "        if cursor.warning_count:\n", "        if False:\n"),),
        (TESTS + "test_a_value_that_would_not_stay_as_it_is_fails_the_batch",),
    ),
    Mutant(
        "mysql-takes-a-zero-for-the-next-number",
        "a row with the key 0 gets the next number of the table",
        (Change(DATABASE, "NO_AUTO_VALUE_ON_ZERO,", ""),),
        (TESTS + "test_a_zero_stays_a_zero_and_each_float_keeps_its_digits",),
    ),
    Mutant(
        "mysql-has-the-time-of-the-server",
        "an instant moves by the zone of the server",
        (Change(DATABASE, ", time_zone = '+00:00'", ""),),
        (TESTS + "test_a_local_time_does_not_move_with_the_zone_of_the_server",),
    ),
    Mutant(
        "mysql-takes-tables-without-transactions",
        "rows of a batch that was rolled back stay in a table of MyISAM",
        (Change(DATABASE, 'if row is not None and row[0] != "InnoDB":', 'if row is not None and row[0] == "":'),),
        (
            TESTS + "test_a_ledger_without_transactions_is_refused",
            TESTS + "test_a_table_that_rounds_or_has_no_transactions_is_refused",
        ),
    ),
    Mutant(
        "mysql-compares-text-by-the-collation-of-the-database",
        "keys that differ in case or in spaces at their end are one key",
        (Change(DATABASE, 'collation = "" if self._collation is None else', 'collation = "" if self._collation else'),),
        (TESTS + "test_keys_that_differ_in_case_or_in_spaces_are_two_keys",),
    ),
    Mutant(
        "mysql-takes-any-collation-of-a-key",
        "a table of the user's takes two keys of Spark for one, and loses a row of each pair",
        (Change(COLUMNS, "not tells_all_apart(one.collation)", "not one.collation"),),
        (TESTS + "test_a_table_that_would_take_two_keys_for_one_is_refused",),
    ),
    Mutant(
        "mysql-replaces-rows-by-any-index",
        "an upsert replaces the row of another key, which another unique index has found",
        (
            Change(
                COLUMNS,
                "        if not (wanted <= whole or whole & numbered):",
                "        if whole is None and numbered:",
            ),
        ),
        (TESTS + "test_a_table_that_would_take_two_keys_for_one_is_refused",),
    ),
    Mutant(
        "mysql-rounds",
        "a column of the user's rounds the values of the rows without a word",
        (Change(COLUMNS, "        if rounds:", "        if rounds and not name:"),),
        (TESTS + "test_a_table_that_rounds_or_has_no_transactions_is_refused",),
    ),
    Mutant(
        "mysql-takes-two-rows-of-one-key",
        "of two rows with the same keys in a batch the last one stays, whichever that is",
        (Change(DATABASE, "        if keys:  # a second", "        if not keys:  # a second"),),
        (BOTH + "test_rows_that_no_key_tells_apart_are_refused",),
    ),
    Mutant(
        "mysql-moves-each-attempt",
        "rows of a task that ran twice are moved twice",
        (Change(DATABASE, 'return f"(s.{PARTITION}', 'return f"true or (s.{PARTITION}'),),
        (BOTH + "test_the_rows_of_a_task_that_ran_twice_count_once[mariadb]",),
    ),
    Mutant(
        "mysql-writes-numbers-that-are-none",
        "NaN reaches the server as a word",
        (Change(INSERTING, "        if not pc.all(pc.is_finite(column), min_count=0).as_py():", "        if False:"),),
        (TESTS + "test_a_number_that_mysql_lacks_fails_the_batch_by_name",),
    ),
    Mutant(
        "mysql-sends-rows-of-any-length",
        "a row that is longer than a packet ends the connection, as if the server were away",
        (Change(INSERTING, "        if len(text) > most:", "        if len(text) > most << 30:"),),
        (TESTS + "test_a_row_that_is_longer_than_a_packet_fails_the_batch_by_its_bytes",),
    ),
    Mutant(
        "mysql-reads-backslashes-of-text",
        "a backslash in a text changes the letter behind it, or ends the text",
        (Change(INSERTING, 'pc.replace_substring(column.cast(text), "\\\\", "\\\\\\\\")', "column.cast(text)"),),
        (UNIT + "test_a_value_is_written_as_mysql_reads_it",),
    ),
    Mutant(
        "mysql-takes-a-full-server-for-a-bad-batch",
        "a lock that another leader holds, or a deadlock, counts as a failure of the batch, and five of them pause it",
        (Change(DATABASE, "*(1020, 1205, 1206, 1213),", "*(1020, 1206),"),),
        (
            TESTS + "test_an_error_whose_cause_passes_is_trouble_of_the_storage",
            TESTS + "test_two_leaders_that_begin_a_ledger_at_once_wait_for_each_other",
        ),
    ),
    Mutant(
        "mysql-takes-a-bad-batch-for-an-absent-server",
        "a row that no server takes is sent again for ever, while members take turns",
        (Change(DATABASE, "return number == 0 or number in _AWAY or", "return number >= 0 or"),),
        (TESTS + "test_an_error_whose_cause_passes_is_trouble_of_the_storage",),
    ),
    Mutant(
        "mysql-limits-each-statement",
        "a statement that works for longer than a greeting may take fails, each time",
        (Change(INSERTING, "connection._read_timeout = None", "assert connection"),),
        (TESTS + "test_a_host_that_is_gone_is_noticed_and_a_statement_has_no_limit",),
    ),
    Mutant(
        "mysql-waits-two-hours-for-a-host-that-is-gone",
        "a batch whose server lost its power waits as long as Linux does",
        (Change(INSERTING, "        for option, value in SILENT_LINE:\n", "        for option, value in ():\n"),),
        (TESTS + "test_a_host_that_is_gone_is_noticed_and_a_statement_has_no_limit",),
    ),
)
