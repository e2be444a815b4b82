"""What somebody put into a scope by hand, under a name that no record has, ends no listing."""

from __future__ import annotations

import base64
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tests.kit.conformance.fixture import SCOPE, put_new
from tests.stores import new_store

STRANGE = (b"members/my host", b"members//twice", b"members/\xff", b"members/")


def put_by_hand(request: pytest.FixtureRequest, url: str, name: bytes) -> None:
    kind, _, rest = url.partition("://")
    if kind == "sqlite":
        with closing(sqlite3.connect(rest)) as connection, connection:
            key = name.decode(errors="replace")
            connection.execute("INSERT INTO records (scope, key, value, revision) VALUES (?, ?, 'x', 1)", (SCOPE, key))
        return
    key, value = (
        base64.b64encode(one).decode() for one in (f"/{rest.partition('/')[2]}/{SCOPE}/".encode() + name, b"x")
    )
    request.getfixturevalue(kind).ask(0, "kv/put", {"key": key, "value": value})


@pytest.mark.parametrize("kind", ["sqlite", "etcd"])
def test_names_of_others_are_left_alone(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    url = new_store(request, kind, tmp_path)
    with closing(open_store(url, clock=SystemClock())) as store:
        put_new(store, "members/anna")
        for name in STRANGE:
            put_by_hand(request, url, name)
        for prefix in ("", "members"):
            assert [record.key for record in store.list(SCOPE, prefix).records] == ["members/anna"]
