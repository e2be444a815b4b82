"""With `--log-format json`, each line on stderr is one JSON object."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tenure.cli import output
from tenure.cli.log_format import asks_for_json, use_json
from tenure.cli.narrator import Narrator
from tenure.cli.output import complain, note, replaces, say_waiting, warn
from tenure.events import BatchCommitted, BatchStarted, StoreAway
from tests.kit.clock import ManualClock

AT = "2030-01-01T00:00:00.000+00:00"


@pytest.fixture(autouse=True)
def in_json(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The product sets these for a whole process."""
    monkeypatch.setattr(output._LINES, "clock", None)
    hooks, handlers = (sys.excepthook, threading.excepthook), list(logging.getLogger().handlers)
    use_json(ManualClock())
    use_json(ManualClock())
    yield
    sys.excepthook, threading.excepthook = hooks
    logging.getLogger().handlers = handlers


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert all(one.pop("time") == AT for one in found)
    return found


def test_an_event_has_its_fields_and_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    narrator = Narrator(clock=ManualClock(), quiet=False)
    narrator.wait("waits for the store")
    for event in (
        BatchStarted("rows", 3, "copy", 7),
        BatchCommitted("rows", 3, "copy", 7, repeated=False, seconds=1.0),
        StoreAway("rows", "anna", why="zk://ana:hidden@h1 is away", again_s=3.0),
    ):
        narrator(event)
    assert lines(capsys) == [
        {
            "level": "info",
            "event": "BatchCommitted",
            "message": "query copy batch 7 committed in 1.00 s",
            **{"scope": "rows", "epoch": 3, "query": "copy", "batch": 7, "repeated": False, "seconds": 1.0},
        },
        {
            "level": "warning",
            "event": "StoreAway",
            "message": "member anna tries the store again in 3 s: zk://ana:***@h1 is away",
            **{"scope": "rows", "member": "anna", "why": "zk://ana:***@h1 is away", "again_s": 3.0},
        },
    ]


def test_errors_warnings_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    complain("no luck\n at sqlite://ana:hidden@h1; try again")
    warn("careful")
    note("a title")
    say_waiting("waits")
    assert lines(capsys) == [
        {"level": "error", "event": "error", "message": "no luck at sqlite://ana:***@h1; try again"},
        {"level": "warning", "event": "warning", "message": "careful"},
        {"level": "info", "event": "note", "message": "a title"},
    ]
    assert not replaces()


def test_what_libraries_log(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("some.package")
    log.info("nothing of importance")
    log.warning("slow %s", "disk")
    try:
        int("x")
    except ValueError:
        log.exception("it failed")
    slow, failed = [one for one in lines(capsys) if one.get("logger") == "some.package"]
    assert slow == {"level": "warning", "event": "log", "message": "slow disk", "logger": "some.package"}
    assert (failed["level"], failed["message"]) == ("error", "it failed")
    assert failed["exception"].endswith("ValueError: invalid literal for int() with base 10: 'x'")


@pytest.mark.parametrize("hook", ["process", "thread"])
def test_an_exception_that_nobody_caught_is_one_line(hook: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise KeyError("a\nb")
    except KeyError as error:
        if hook == "process":
            sys.excepthook(KeyError, error, error.__traceback__)
        else:
            threading.excepthook(threading.ExceptHookArgs((KeyError, error, error.__traceback__, None)))
    (line,) = lines(capsys)
    assert (line["level"], line["event"], line["message"]) == ("error", "exception", "KeyError: 'a\\nb'")
    assert "test_log_format.py" in line["exception"]


@pytest.mark.parametrize(
    ("words", "variable", "asked"),
    [
        ("run a.py --log-format json", None, True),
        ("run a.py --log-format=json", None, True),
        ("run a.py", "json", True),
        ("run a.py --log-format text", "json", False),
        ("run a.py --log-format json --log-format text", None, False),
        ("run a.py --log-format", "json", False),
        ("run a.py", None, False),
        ("list", "json", False),
        ("", "json", False),
    ],
)
def test_it_is_known_before_the_settings_are(words: str, variable: str | None, asked: bool) -> None:
    environment = {} if variable is None else {"TENURE_LOG_FORMAT": variable}
    assert asks_for_json(words.split(), environment) is asked
