"""Multi-reads as bytes, and the requests that carry them."""

from __future__ import annotations

from typing import Any, cast

import pytest
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.protocol.serialization import MultiHeader, int_struct, multiheader_struct, stat_struct, write_buffer
from kazoo.protocol.states import ZnodeStat

from tenure.backends.zookeeper.connection import Connection
from tenure.backends.zookeeper.reading import AT_ONCE, MultiRead, nodes_at, record_of
from tenure.coordination.records import Key
from tenure.errors import StoreUnavailable

STAT = ZnodeStat(7, 8, 0, 0, 3, 0, 0, 0, 4, 0, 7)


def data_of(data: bytes | None) -> bytes:
    return bytes(MultiHeader(4, False, 0).serialize() + write_buffer(data) + stat_struct.pack(*STAT))


def error_of(code: int) -> bytes:
    return bytes(MultiHeader(-1, False, code).serialize() + int_struct.pack(code))


END = multiheader_struct.pack(-1, True, -1)


def test_answers_are_in_the_order_of_the_paths() -> None:
    packed = b"head" + data_of(b"one") + error_of(-101) + data_of(b"") + data_of(None) + error_of(-102) + END
    one, gone, empty, nothing, forbidden = MultiRead(["/a"] * 5).deserialize(packed, 4)
    assert (one, empty, nothing) == ((b"one", STAT), (b"", STAT), (None, STAT))
    assert isinstance(gone, NoNodeError)
    assert isinstance(forbidden, NoAuthError)


def test_a_missing_answer_is_no_answer() -> None:
    with pytest.raises(ValueError, match="1 answers to 2 reads"):
        MultiRead(["/a", "/b"]).deserialize(data_of(b"one") + END, 0)


def test_a_request_names_each_path() -> None:
    read = bytes(MultiHeader(4, False, -1).serialize())
    assert bytes(MultiRead(["/a", "/bb"]).serialize()) == (
        read + b"\0\0\0\2/a\0" + read + b"\0\0\0\3/bb\0" + multiheader_struct.pack(-1, True, -1)
    )


class Client:
    """Takes requests as kazoo does."""

    chroot = "/ours"

    def __init__(self) -> None:
        self.handler = self
        self.asked: list[Any] = []

    def async_result(self) -> object:
        return object()

    def _call(self, request: MultiRead, answer: object) -> None:
        self.asked.append(request)


class Line:
    """A connection."""

    def __init__(self) -> None:
        self.client = Client()

    def ask(self, request: Any) -> list[Any]:
        before = len(self.client.asked)
        request(self.client)
        return [self._answer(one) for one in self.client.asked[before:]]

    def _answer(self, asked: MultiRead) -> Any:
        return [(path.encode(), STAT) for path in asked._paths]


def test_many_nodes_are_asked_for_in_few_requests_below_the_chroot() -> None:
    line = Line()
    paths = [f"/n{number}" for number in range(2 * AT_ONCE + 1)]
    found = nodes_at(cast(Connection, line), paths)
    assert len(line.client.asked) == 3
    assert found == {path: (f"/ours{path}".encode(), STAT) for path in paths}


def test_a_node_that_is_not_there_is_an_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line()
    monkeypatch.setattr(line, "_answer", lambda asked: [(b"x", STAT), NoNodeError()])
    assert nodes_at(cast(Connection, line), ["/a", "/gone"]) == {"/a": (b"x", STAT), "/gone": None}


def test_a_node_that_may_not_be_read_is_no_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line()
    monkeypatch.setattr(line, "_answer", lambda asked: [(b"x", STAT), NoAuthError()])
    with pytest.raises(StoreUnavailable, match="does not permit to read records"):
        nodes_at(cast(Connection, line), ["/a", "/b"])


@pytest.mark.parametrize("data", [b"", b"\x01any"])
def test_the_data_of_a_node_is_the_value(data: bytes) -> None:
    record = record_of(Key("a/b"), (data, STAT))
    assert record is not None
    assert (record.key, record.value, record.session) == ("a/b", data, None)


def test_a_node_without_data_is_no_record() -> None:
    """`zkCli.sh create /path` makes one."""
    assert record_of(Key("a"), (None, STAT)) is None
    assert record_of(Key("a"), None) is None
