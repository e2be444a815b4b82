"""What errors say in one line: recorded texts of Spark, py4j and delta-rs (of a stack, three frames each)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tenure.errors import StorageError, error_from_data, error_to_data
from tenure.wording import on_one_line, sentence

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded_errors.json").read_text(encoding="utf-8"))
FRAME = re.compile(
    r"\bat [\w.$/]+\(|\.(?:scala|java|rs|c|S):\d|\d+: <unknown>|File \"|Caused by|more$|stacktrace|Traceback"
)


@pytest.mark.parametrize("name", RECORDED)
def test_the_sentence_that_matters(name: str) -> None:
    text = "\n".join(RECORDED[name]["text"])
    assert sentence(text) == RECORDED[name]["says"]
    assert not FRAME.search(RECORDED[name]["says"])


@pytest.mark.parametrize("name", RECORDED)
def test_no_frame_is_in_an_error_that_cites_it(name: str) -> None:
    """Also where its lines were joined before."""
    text = "\n".join(RECORDED[name]["text"])
    for cited in (text, " ".join(text.split())):
        line = str(StorageError(f"cannot look at /srv: {cited}", fix="see that it can be read"))
        assert line.startswith("cannot look at /srv: ")
        assert line.endswith("; see that it can be read")
        assert "\n" not in line
        assert not re.search(r"\bat [\w.$/]+\([\w$]+\.(?:scala|java):\d|\bat [\w.$/]+\(Native Method|<unknown>", line)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("no luck", "no luck"),
        ("a file  with two blanks", "a file  with two blanks"),
        ("one\n  two\n\nthree", "one two three"),
        ("look at it (here): nothing", "look at it (here): nothing"),
        ("1: one\n2: two", "1: one 2: two"),
        ("", ""),
    ],
)
def test_a_text_without_a_stack_stays(text: str, line: str) -> None:
    assert on_one_line(text) == line


CANNOT_RUN = 'java.io.IOException: Cannot run program "/opt/none/bin/python"'


@pytest.mark.parametrize(
    ("causes", "said"),
    [
        ((f"{CANNOT_RUN}: error=2, None", "java.io.IOException: error=2, None"), f"{CANNOT_RUN}: error=2, None"),
        (("a.Wrapped: b.Full: disk", "b.Full: disk"), "b.Full: disk"),
        (("a.Wrapped: another", "b.Full: disk"), "b.Full: disk"),
        (("a.Wrapped: b", "b.NullPointerException"), "b.NullPointerException"),
        (("b.Full: disk",), "b.Full: disk"),
    ],
)
def test_a_cause_that_repeats_the_innermost_and_says_more_is_the_one(causes: tuple[str, ...], said: str) -> None:
    frame = "\n\tat a.B.c(B.java:1)"
    text = "".join(f"\nCaused by: {cause}{frame}" for cause in causes)
    assert sentence(f"An error occurred while calling o1.x.\n: a.SparkException: Job aborted.{frame}{text}") == said


@pytest.mark.parametrize(
    "text", ["", " \n ", "Traceback (most recent call last):\n", "An error occurred while calling o1.x.\n: "]
)
def test_a_text_that_says_nothing_is_no_error(text: str) -> None:
    assert "\n" not in sentence(text)


def test_a_sentence_has_an_end() -> None:
    assert len(sentence("x" * 10_000)) == 600


def test_an_error_is_the_same_line_in_the_other_process() -> None:
    error = StorageError("it failed: no luck\n\tat a.B.c(D.java:7)", fix="try again")
    assert str(error_from_data(error_to_data(error))) == str(error) == "it failed: no luck; try again"
