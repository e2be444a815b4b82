"""What waits for the lines of ZooKeeper, in the place of kazoo's."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator

import pytest

from tenure.backends.zookeeper.connection import _Threads

THREADS = _Threads(share_s=1.0)
HIGH = 2000
"""A number that select(2) does not take."""


@pytest.fixture(params=["low", "high"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a line."""
    ours, theirs = socket.socketpair()
    if request.param == "high":
        if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= HIGH:
            pytest.skip("this process may not open so many files")
        os.dup2(ours.fileno(), HIGH)
        ours.close()
        ours = socket.socket(fileno=HIGH)
    with ours, theirs:
        yield ours, theirs


def test_it_tells_who_can_be_read_and_who_can_be_written(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    assert THREADS.select([ours], [], [], 0) == ([], [], [])
    assert THREADS.select([ours], [theirs], [], 0) == ([], [theirs], [])
    theirs.send(b"x")
    assert THREADS.select([ours], [theirs], []) == ([ours], [theirs], [])
    assert THREADS.select([ours.fileno()], [], [], 0.001) == ([ours.fileno()], [], [])


def test_a_line_that_the_other_end_has_closed_can_be_read(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.close()
    assert THREADS.select([ours], [], [])[0] == [ours]


def test_a_closed_file_is_an_error(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    number = os.dup(ours.fileno())
    os.close(number)
    with pytest.raises(ValueError, match="closed"):
        THREADS.select([number], [], [], 0)
    theirs.close()
    with pytest.raises(TypeError):
        THREADS.select([theirs], [], [], 0)
