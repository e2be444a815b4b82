"""Options of the sink for PostgreSQL that do not fit together, and the names of its staging tables."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.errors import UsageError
from tenure.sinks.postgres.sink import Postgres, staging_name
from tenure.sinks.sink import Batch, OutputMode

URL = "postgresql://u@h/d"


@pytest.mark.parametrize(
    ("options", "output_mode", "line"),
    [
        ({}, "update", "update mode into t with mode='append'"),
        ({}, "complete", "complete mode into t"),
        ({"mode": "upsert"}, "update", "upsert into t needs keys"),
        ({"keys": ["k"]}, "append", "append into t has keys"),
        ({"mode": "replace"}, "append", "mode 'replace' of a Postgres sink is unknown"),
        ({"mode": "upsert", "keys": ["k"]}, "complete", "use append or update mode"),
        ({"url": "postgresql://u:secret@h/d"}, "append", "the URL of a Postgres sink has a password"),
        ({"url": "host=h password=secret"}, "append", "the URL of a Postgres sink has a password"),
        ({"url": "postgresql://u@h/d?nonsense=1"}, "append", "the URL of a Postgres sink is not one"),
        ({"table": "a.b.c"}, "append", "table 'a.b.c' is not the name of a table"),
        ({"table": ""}, "append", "table '' is not the name of a table"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], output_mode: OutputMode, line: str) -> None:
    given = {"url": URL, "table": "t", **options}
    with pytest.raises(UsageError) as refused:
        Postgres(given.pop("url"), given.pop("table"), **given).check(output_mode=output_mode)
    assert line in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "output_mode"),
    [({}, "append"), ({"mode": "upsert", "keys": "k"}, "update"), ({"mode": "upsert", "keys": ["k"]}, "append")],
)
def test_options_that_fit(options: dict[str, Any], output_mode: OutputMode) -> None:
    Postgres(URL, "s.t", **options).check(output_mode=output_mode)


def test_the_name_of_a_staging_table_fits_and_tells_attempts_apart() -> None:
    batches = [
        Batch("s", "q", query_id, batch, epoch) for query_id in "ab" for batch in (1, 10**12) for epoch in (1, 9)
    ]
    names = {staging_name(one) for one in batches}
    assert len(names) == len(batches)
    assert max(map(len, names)) < 63
