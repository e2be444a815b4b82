"""Options of the sinks for databases that do not fit together, and the names of their staging tables."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.errors import UsageError
from tenure.sinks.mysql.sink import MySQL
from tenure.sinks.postgres.sink import Postgres
from tenure.sinks.sink import Batch, OutputMode
from tenure.sinks.sql.sink import SqlSink
from tenure.sinks.sql.staged_tables import staging_name

URLS: dict[type[SqlSink], str] = {Postgres: "postgresql://u@h/d", MySQL: "mysql://u@h/d"}


@pytest.mark.parametrize("sink", URLS)
@pytest.mark.parametrize(
    ("options", "output_mode", "line"),
    [
        ({}, "update", "update mode into t with mode='append'"),
        ({}, "complete", "complete mode into t"),
        ({"mode": "upsert"}, "update", "upsert into t needs keys"),
        ({"keys": ["k"]}, "append", "append into t has keys"),
        ({"mode": "replace"}, "append", "mode 'replace' of a SINK sink is unknown"),
        ({"mode": "upsert", "keys": ["k"]}, "complete", "use append or update mode"),
        ({"table": "a.b.c"}, "append", "table 'a.b.c' is not the name of a table"),
        ({"table": ""}, "append", "table '' is not the name of a table"),
    ],
)
def test_options_that_do_not_fit(
    sink: type[SqlSink], options: dict[str, Any], output_mode: OutputMode, line: str
) -> None:
    given = {"table": "t", **options}
    with pytest.raises(UsageError) as refused:
        sink(URLS[sink], given.pop("table"), **given).check(output_mode=output_mode)
    assert line.replace("SINK", sink.__name__) in str(refused.value)


@pytest.mark.parametrize(
    ("sink", "url", "line"),
    [
        (Postgres, "postgresql://u:secret@h/d", "the URL of a Postgres sink has a password"),
        (Postgres, "host=h password=secret", "the URL of a Postgres sink has a password"),
        (Postgres, "postgresql://u@h/d?nonsense=1", "the URL of a Postgres sink is not one"),
        (MySQL, "mysql://u:secret@h/d", "the URL of a MySQL sink has a password"),
        (MySQL, "mysql://u@h/d?password=secret", "the URL of a MySQL sink has a password"),
        (MySQL, "mysql://u@h/d?nonsense=secret", "the URL of a MySQL sink has an option 'nonsense', which is none"),
        (MySQL, "mysql://u@h", "the URL of a MySQL sink is not one"),
        (MySQL, "mysql://u@h/d/e", "the URL of a MySQL sink is not one"),
        (MySQL, "mysql://u@h:secret/d", "the URL of a MySQL sink is not one"),
        (MySQL, "host=h", "the URL of a MySQL sink is not one"),
    ],
)
def test_urls_that_are_none(sink: type[SqlSink], url: str, line: str) -> None:
    with pytest.raises(UsageError) as refused:
        sink(url, "t").check(output_mode="append")
    assert line in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("sink", URLS)
@pytest.mark.parametrize(
    ("options", "output_mode"),
    [({}, "append"), ({"mode": "upsert", "keys": "k"}, "update"), ({"mode": "upsert", "keys": ["k"]}, "append")],
)
def test_options_that_fit(sink: type[SqlSink], options: dict[str, Any], output_mode: OutputMode) -> None:
    sink(URLS[sink], "s.t", **options).check(output_mode=output_mode)


def test_the_name_of_a_staging_table_fits_and_tells_attempts_apart() -> None:
    batches = [
        Batch(scope, "q", query_id, batch, epoch)
        for scope in ("s", "again")
        for query_id in "ab"
        for batch in (1, 10**12)
        for epoch in (1, 9)
    ]
    names = {staging_name(one) for one in batches}
    assert len(names) == len(batches)
    assert max(map(len, names)) < 63


@pytest.mark.parametrize(
    ("words", "away"),
    [
        ("psycopg.OperationalError: the connection is lost", "the connection is lost"),
        (
            "psycopg.errors.ReadOnlySqlTransaction: cannot execute COPY FROM in a read-only transaction",
            "cannot execute COPY FROM in a read-only transaction",
        ),
        ("psycopg.errors.AdminShutdown: terminating connection", "terminating connection"),
        ("psycopg.errors.UniqueViolation: duplicate key value", None),
        ("psycopg.errors.NoSuchError: who knows", None),
    ],
)
def test_the_words_of_a_task_tell_whether_the_server_is_away(words: str, away: str | None) -> None:
    assert Postgres(URLS[Postgres], "t")._away(f"PythonException: {words}") == away
