"""The references made from the code: each public name and each command says something of its own."""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
import sys
from collections.abc import Iterator
from importlib.metadata import version
from types import ModuleType
from typing import Any

import pytest

import tenure
from tenure import sinks
from tests.house import tree
from tests.house.test_documents import all_errors, rows, text_of
from tests.house.test_snippets import all_of_tenure, parse

PAGES = tree.ROOT / "docs"


@pytest.fixture(scope="module", autouse=True)
def extensions() -> Iterator[None]:
    """Let the extensions of Sphinx be imported."""
    folder = str(PAGES / "_extensions")
    sys.path.insert(0, folder)
    yield
    sys.path.remove(folder)


@pytest.fixture(scope="module")
def commands_page(extensions: None) -> ModuleType:
    """The extension that lists the commands."""
    return importlib.import_module("commands_page")


@pytest.fixture(scope="module")
def troubles_page(extensions: None) -> ModuleType:
    """The extension that lists the lines of errors."""
    return importlib.import_module("troubles_page")


def own_text(found: Any) -> str:
    """The docstring that the object itself has; that of a dataclass without any is its signature."""
    text = inspect.cleandoc(vars(found).get("__doc__") or "") if isinstance(found, type) else inspect.getdoc(found)
    return "" if not text or (isinstance(found, type) and text.startswith(f"{found.__name__}(")) else text


def public() -> Iterator[tuple[str, Any]]:
    for name in tenure.__all__:
        yield name, getattr(tenure, name)
    for name in sinks.__all__:
        yield f"sinks.{name}", getattr(sinks, name)


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    for name, found in vars(kind).items():
        field = name in getattr(kind, "__dataclass_fields__", {})  # described below it
        if not (field or name.startswith("_")) and (inspect.isfunction(found) or isinstance(found, property)):
            yield f"{kind.__name__}.{name}", found


def test_every_public_name_has_a_docstring() -> None:
    silent = [name for name, found in public() if not own_text(found)]
    classes = [kind for _, kind in public() if isinstance(kind, type)]
    silent += [name for kind in classes for name, one in methods(kind) if not own_text(one)]
    assert not silent


def test_the_version_is_that_of_the_package() -> None:
    assert tenure.__version__ == version("tenure")


def test_every_command_says_what_it_does(commands_page: ModuleType) -> None:
    listed = dict(commands_page.commands())
    assert all_of_tenure().commands.keys() == {name.split()[1] for name in listed}
    assert not [name for name, command in listed.items() if not command.help]
    silent = [f"{name}: {one.opts}" for name, command in listed.items() for one in command.params if not one.help]
    assert not silent


def test_the_examples_of_the_commands_parse(commands_page: ModuleType, subtests: pytest.Subtests) -> None:
    found = {name: commands_page.example_of(command)[1] for name, command in commands_page.commands()}
    assert all(example for name, example in found.items() if name != "tenure version"), found
    for name, example in found.items():
        with subtests.test(name):
            parse(shlex.split(example or name)[1:])


def test_every_error_is_among_the_troubles(troubles_page: ModuleType) -> None:
    made = list(troubles_page.markdown())
    assert not {f"### {kind.__name__}" for kind in all_errors()} - set(made)
    lines = troubles_page.lines()
    assert len(lines) > 300
    assert not [line for line in lines if line.kind not in tenure.__all__]
    assert "`a live member of scope SCOPE is named MEMBER`" in made


def test_the_usual_lines_are_lines(troubles_page: ModuleType) -> None:
    known = [troubles_page.pattern(line.text) for line in troubles_page.lines()]
    usual = [cells[0].strip("`") for cells in rows("docs/troubleshooting.md", heading="The usual lines")]
    assert len(usual) > 15
    assert not [line for line in usual if not any(one.match(line.removesuffix(" ...")) for one in known)]


def test_the_figures_of_the_home_page_are_measured() -> None:
    figures = re.findall(r"\*\*([\d.]+ m?s)\*\*", text_of("docs/index.md"))
    assert len(figures) == 3
    measured = text_of("docs/measurements.md")
    assert not [figure for figure in figures if figure not in measured]
    ends = [int(count) for count in re.findall(r"in (\d+)\s+(?:ends|on)\b", measured.split("## Random ends")[1])]
    assert f"{sum(ends)} random ends" in text_of("docs/index.md")
