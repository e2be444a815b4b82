"""A board: each reader gets each later change once, in its newest state, and no password."""

from __future__ import annotations

from tenure.ui.board import LOG_MOST, Board


def test_a_reader_gets_what_changed_after_its_version() -> None:
    board = Board()
    board.put({"a": 1, "b": {"x": [1, 2]}})
    first = board.after(0)
    assert first.parts == {"a": 1, "b": {"x": [1, 2]}}
    board.put({"a": 2, "b": {"x": [1, 2]}})
    board.put({"a": 3})
    later = board.after(first.version)
    assert later.parts == {"a": 3}, "each part once, in its newest state"
    assert board.after(later.version).is_empty
    assert board.after(0).parts == {"a": 3, "b": {"x": [1, 2]}}


def test_a_part_that_goes_is_said_to_those_who_had_it() -> None:
    board = Board()
    board.put({"a": 1, "b": 2})
    had = board.after(0).version
    board.put({"a": None})
    assert board.after(had).parts == {"a": None}
    assert board.after(0).parts == {"b": 2}, "a new reader never had it"
    assert board.names() == ["b"]


def test_a_log_goes_on_where_the_reader_is_and_keeps_the_newest_lines() -> None:
    board = Board()
    board.append("events", [{"n": 1}, {"n": 2}])
    had = board.after(0)
    assert had.logs == {"events": [{"n": 1}, {"n": 2}]}
    board.append("events", [])
    assert board.after(had.version).is_empty
    board.append("events", ({"n": number} for number in range(LOG_MOST + 5)))
    lines = board.after(had.version).logs["events"]
    assert (len(lines), lines[-1]) == (LOG_MOST, {"n": LOG_MOST + 4})


def test_readers_wake_for_changes_alone_and_not_after_they_left() -> None:
    board, woken = Board(), []
    wake = lambda: woken.append(1)  # noqa: E731 - two attachments of one function are one
    board.attach(wake)
    board.put({"a": 1})
    board.put({"a": 1})
    board.append("log", [1])
    board.wake_all()
    assert len(woken) == 3
    board.detach(wake)
    board.put({"a": 2})
    assert len(woken) == 3


def test_no_text_has_a_password() -> None:
    board = Board()
    board.put({"a": {"why": ["etcd://root:hidden-1@host failed", ("password=hidden-2",)]}})
    board.append("events", [{"text": "token='hidden-3'", "number": 7}])
    assert "hidden" not in str(board.after(0))
    assert board.after(0).logs["events"][0]["number"] == 7
