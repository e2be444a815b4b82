"""One pipeline, or one line that says what is wrong where."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tenure.errors import PipelineFileError
from tenure.pipelines.loading import load_pipeline

ONE = "import tenure\n@tenure.pipeline\ndef one(job): ...\n"
TWO = ONE + "@tenure.pipeline\ndef two(job): ...\n"


def write(folder: Path, text: str | bytes, name: str = "mine.py") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", list(__import__("sys").path))


def test_the_one_pipeline_is_found(tmp_path: Path) -> None:
    assert load_pipeline(write(tmp_path, ONE)).pipeline.name == "one"


def test_a_second_name_of_it_is_no_second_pipeline(tmp_path: Path) -> None:
    assert load_pipeline(write(tmp_path, ONE + "again = one\n")).pipeline.name == "one"


def test_its_neighbours_can_be_imported(tmp_path: Path) -> None:
    write(tmp_path, "word = 'hello'\n", name="neighbour_of_mine.py")
    assert load_pipeline(write(tmp_path, "from neighbour_of_mine import word\n" + ONE)).pipeline.name == "one"


def test_what_is_loaded_is_what_stands_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's cache knows a file by its size and the second of its change, as a copy or an image may keep them."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)  # as it is for users
    found = []
    for text in (ONE, ONE.replace("one", "two")):
        path = write(tmp_path, text)
        os.utime(path, (1.7e9, 1.7e9))
        found.append(load_pipeline(path))
    assert [one.pipeline.name for one in found] == ["one", "two"]
    assert found[0].fingerprint != found[1].fingerprint
    assert [one.name for one in tmp_path.iterdir()] == ["mine.py"], "nothing is put beside it"


def test_a_name_with_a_dash_is_loaded(tmp_path: Path) -> None:
    assert load_pipeline(write(tmp_path, ONE, name="my-own.py")).pipeline.name == "one"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def x(:\n", r"mine\.py:1: invalid syntax; mend the syntax"),
        (b'x = "\xff"\n', r"mine\.py:1: .*utf-8.*; mend the syntax"),
        ("x = '\0'\n", r"mine\.py: source code string cannot contain null bytes; mend the syntax"),
        ("\nimport not_there\n", r"mine\.py:2: ModuleNotFoundError: No module named 'not_there'"),
        ("def f():\n  raise ValueError('no luck')\nf()\n", r"mine\.py:2: ValueError: no luck"),
        ("import sys\nsys.exit(3)\n", r"mine\.py:2: SystemExit: 3"),
        ("x = 1\n", r"mine\.py declares no pipeline; decorate one function with @tenure\.pipeline"),
        (TWO, r"mine\.py declares 2 pipelines \(one, two\); keep one pipeline a file"),
        (ONE.replace("one", "ä"), r"mine\.py: scope 'ä' is not a name; use letters"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str | bytes, line: str) -> None:
    with pytest.raises(PipelineFileError, match=line):
        load_pipeline(write(tmp_path, text))


@pytest.mark.parametrize("path", ["none.py", "."])
def test_a_file_that_is_not_there(tmp_path: Path, path: str) -> None:
    with pytest.raises(PipelineFileError, match="is not there; give the path of a Python file"):
        load_pipeline(str(tmp_path / path))


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match=r"is not a Python file; give a file that ends with \.py"):
        load_pipeline(write(tmp_path, ONE, name="mine.txt"))
