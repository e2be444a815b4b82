"""`tenure handles`, as a command on what a service keeps."""

from __future__ import annotations

import base64
import contextlib
import io
import sys
from collections.abc import Iterator

import pytest

import tenure as package
from tenure.errors import LockLost
from tests.cli.support import Place, Told, tenure

BIG = b"report " * 1000
BYTES = b"\xff\x00"


@pytest.fixture
def kept(place: Place) -> Place:
    """A store and a storage in which a service kept three handles in two areas, and a record."""
    with package.lead("rows", store=f"sqlite://{place.store}", storage=f"file://{place.storage}", member="anna") as led:
        led.handles("daily").add("2026-10", b"small")
        led.handles("daily").add("2026-11", BIG)
        led.handles("models").add("bytes", BYTES)
        led.commit("newest", b"2026-11")
    return place


@contextlib.contextmanager
def locked(place: Place, name: str = "2026-11") -> Iterator[None]:
    """A reader that has locked a handle of `daily`."""
    url = f"sqlite://{place.store}"
    with (
        package.read("rows", store=url, storage=f"file://{place.storage}") as reader,
        reader.handles("daily").locked(name),
    ):
        yield


def handles(place: Place, *words: str, scope: str = "rows") -> Told:
    storage = ("--storage", f"file://{place.storage}") if words[0] == "show" else ()
    return tenure("handles", *words, "--store", f"sqlite://{place.store}", *storage, "--scope", scope)


def rows_of(told: Told) -> list[list[str]]:
    assert told.code == 0, told.err
    return [line.split("\t") for line in told.out.splitlines()]


def test_they_are_listed_with_the_locks_of_their_readers(kept: Place) -> None:
    with locked(kept):
        told = handles(kept, "list")
        document = handles(kept, "list", "daily", "-o", "json").json
    head, *rows = rows_of(told)
    assert head == ["area", "name", "bytes", "epoch", "locks", "place"]
    assert [row[:5] for row in rows] == [
        ["daily", "2026-10", "5", "1", "0"],
        ["daily", "2026-11", "7000", "1", "1"],
        ["models", "bytes", "2", "1", "0"],
    ]
    assert rows[0][5] == "the store"
    assert rows[1][5].startswith("blobs/e00000001/handles/daily/2026-11-")
    assert told.err == "handles of rows\n"
    assert [row["name"] for row in document] == ["2026-10", "2026-11"]


def test_one_is_shown_with_its_payload(kept: Place) -> None:
    small = {row[0]: row[1] for row in rows_of(handles(kept, "show", "daily", "2026-10"))}
    assert (small["payload"], small["bytes"]) == ("small", "5")
    big = {row[0]: row[1] for row in rows_of(handles(kept, "show", "daily", "2026-11"))}
    assert big["payload"] == BIG[:2000].decode() + "..."
    assert handles(kept, "show", "daily", "2026-11", "-o", "json").json["text"] == BIG.decode()
    assert {row[0]: row[1] for row in rows_of(handles(kept, "show", "models", "bytes"))}["payload"] == "(no text)"
    document = handles(kept, "show", "models", "bytes", "-o", "json").json
    assert base64.b64decode(document["base64"]) == BYTES
    assert "text" not in document


def test_damage_is_one_line_with_its_exit_code(kept: Place) -> None:
    for path in (kept.storage / "rows" / "blobs").rglob("2026-11-*"):
        path.write_bytes(b"x")
    told = handles(kept, "show", "daily", "2026-11")
    assert told.code == 5
    assert "2026-11" in told.error
    kept.sql("UPDATE records SET value = 'damaged' WHERE key = 'handles/daily/2026-10'")
    told = handles(kept, "list")
    assert told.code == 5
    assert told.error.startswith("record 'handles/daily/2026-10' does not decode")


def test_locks_are_listed_and_released_and_the_reader_learns_it(kept: Place) -> None:
    assert rows_of(handles(kept, "locks")) == [["area", "name", "by", "session", "lock"]]
    reads = locked(kept)
    reads.__enter__()
    _, row = rows_of(handles(kept, "locks", "daily"))
    assert row[:2] == ["daily", "2026-11"]
    assert row[2].startswith("process ")
    (found,) = handles(kept, "locks", "-o", "json").json
    assert (found["session"], found["lock"]) == (row[3], row[4])
    told = handles(kept, "release", "daily", "2026-11", "--force")
    assert (told.code, told.out) == (0, "daily/2026-11 has no lock any more; taken away: 1\n")
    with pytest.raises(LockLost):
        reads.__exit__(None, None, None)
    told = handles(kept, "release", "daily", "2026-11", "--force")
    assert (told.code, told.out) == (0, "daily/2026-11 has no lock\n")


def test_a_release_asks_first(kept: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with locked(kept):
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        told = handles(kept, "release", "daily", "2026-11")
        assert told.code == 2
        assert told.error == "release takes a lock from its reader, and there is no terminal to ask at; add --force"
        monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
        monkeypatch.setattr("typer.confirm", lambda text, abort: (_ for _ in ()).throw(KeyboardInterrupt))
        assert handles(kept, "release", "daily", "2026-11").code == 130
        assert len(rows_of(handles(kept, "locks"))) == 2


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("list", "dayly"), "area 'dayly' has no handle in scope 'rows'; known: ['daily', 'models']"),
        (("list", "a b"), "area 'a b' is not a name; use letters"),
        (("locks", "dayly"), "area 'dayly' has no handle in scope 'rows'"),
        (("show", "daily", "2026-12"), "area 'daily' has no handle '2026-12' in scope 'rows'; see tenure handles list"),
        (("show", "daily", "a/b"), "handle 'a/b' is not a name; use letters"),
        (("show", "a/b", "x"), "area 'a/b' is not a name; use letters"),
        (("release", "daily", "2026-12", "--force"), "area 'daily' has no handle '2026-12' in scope 'rows'"),
        (("release", "daily"), "Missing argument 'NAME'"),
    ],
)
def test_a_mistake_is_one_line(kept: Place, words: tuple[str, ...], line: str) -> None:
    told = handles(kept, *words)
    assert told.code == 2
    assert told.error.startswith(line)


def test_a_scope_that_is_not_there_is_named(kept: Place) -> None:
    for words in (("list",), ("locks",), ("show", "daily", "x"), ("release", "daily", "x", "--force")):
        told = handles(kept, *words, scope="row")
        assert told.code == 2
        assert told.error == "scope 'row' is not in this store (sqlite); known: ['rows']"


def test_the_storage_of_a_service_is_swept_by_plan(kept: Place) -> None:
    lost = kept.storage / "rows/blobs/e00000001/handles/daily/lost"
    lost.write_bytes(BIG)
    where = ("--store", f"sqlite://{kept.store}", "--storage", f"file://{kept.storage}", "--scope", "rows")
    status = tenure("cleanup", "status", *where, "-o", "json")
    assert [row["names"] for row in status.json] == [["blobs/e00000001/handles/daily/lost"]]
    assert tenure("sweep", "plan", str(kept.folder / "plan"), *where).code == 0
    told = tenure("sweep", "apply", str(kept.folder / "plan"), *where[2:], "-o", "json")
    assert told.code == 0, told.err
    assert told.json["about"]["files"] == 1
    assert not lost.exists()
    with package.read("rows", store=where[1], storage=where[3]) as reader:
        assert reader.handles("daily").get("2026-11") == BIG
