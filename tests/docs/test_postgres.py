"""The page *PostgreSQL*, done as a reader does it, on a real server: its pipeline, its member, its ledger, its types.

Promise: nothing is put in the place of the page's own words but the address of the server, its folders, and an end of
the run.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tenure.sinks.postgres.columns import TYPES
from tests.docs.blocks import POSTGRES, text_of
from tests.docs.reader import HOURS, UNTIL_IDLE, fill, type_in, variables_of
from tests.draw import QUARTERS, only_if_drawn
from tests.house.tree import ROOT
from tests.kit.servers import PostgresServer
from tests.kit.servers.postgres import PASSWORD

pytestmark = pytest.mark.spark


@only_if_drawn(QUARTERS[3])
def test_the_page_is_true(tmp_path: Path, postgres: PostgresServer) -> None:
    fill(tmp_path)
    (tmp_path / "flights.py").write_text(text_of(POSTGRES, "python postgres"))
    (tmp_path / "password").write_text(PASSWORD)
    with postgres.connect() as connection:
        connection.execute("drop schema public cascade")
        connection.execute("create schema public")
        variables = {**variables_of(tmp_path), "TENURE_CONF": json.dumps({"spark.sql.shuffle.partitions": "1"})}
        for _ in range(2):
            text = "\n".join([text_of(POSTGRES, "sh environment"), f"{text_of(POSTGRES, 'sh member')} {UNTIL_IDLE}"])
            text = text.replace("postgresql://tenure@db.example.com/flights", postgres.url)
            done = type_in(text.replace("/run/secrets/postgres", str(tmp_path / "password")), tmp_path, variables)
            assert done.returncode == 0, done.stdout + done.stderr
        (raw,) = connection.execute("select count(*) from raw_flights").fetchone()
        hours = connection.execute("select carrier, flights from hourly").fetchall()
        ledger = connection.execute(text_of(POSTGRES, "sql ledger")).fetchall()
    assert raw == HOURS
    assert hours == [("UA", 1)] * HOURS
    assert [row[:2] for row in ledger] == [("flights", "hourly"), ("flights", "raw")]
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert kept == [tmp_path / "password"]


def test_the_table_of_types_is_the_one_in_use() -> None:
    page = (ROOT / POSTGRES).read_text(encoding="utf-8")
    named = dict(re.findall(r"^\| `([a-z_(),]+)` \| `([a-z_(), ]+)` \|$", page, re.MULTILINE))
    assert named == {**TYPES, "decimal(p,s)": "numeric(p,s)"}
