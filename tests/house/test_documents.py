"""What the documents say is what the code does: exit codes, invariants, links, versions, examples."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

from tenure import errors
from tests.house import tree

DOCUMENTS = ("README.md", "ARCHITECTURE.md", "STYLE.md", "CONTRIBUTING.md", "CHANGELOG.md")
# Codes that no TenureError carries: success, and what a shell reports for Ctrl-C.
NOT_OF_ERRORS = {0, 130}
INVARIANTS = tuple(f"I{number}" for number in range(1, 11))


def text_of(name: str) -> str:
    return (tree.ROOT / name).read_text(encoding="utf-8")


def rows(document: str, *, heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its first two lines."""
    section = text_of(document).split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines[2:]]


def all_errors() -> list[type[errors.TenureError]]:
    found = [errors.TenureError]
    for kind in found:
        found.extend(kind.__subclasses__())  # grows while it is walked: the whole family
    return [kind for kind in found if kind.__module__ == errors.__name__]


def test_exit_codes_of_the_readme_are_those_of_the_errors() -> None:
    documented = [int(cells[0].strip("`")) for cells in rows("README.md", heading="Exit codes")]
    assert len(documented) == len(set(documented))
    assert set(documented) == {kind.exit_code for kind in all_errors()} | NOT_OF_ERRORS


def invariant_rows() -> dict[str, list[str]]:
    return {cells[0].strip("*").split()[0]: cells for cells in rows("ARCHITECTURE.md", heading="Invariants")}


def test_every_invariant_has_its_row() -> None:
    assert tuple(invariant_rows()) == INVARIANTS


@pytest.mark.parametrize("name", INVARIANTS)
def test_an_invariant_has_a_keeper_and_a_test_that_attacks_it(name: str) -> None:
    keeper, attack = invariant_rows()[name][-2:]
    for cell in (keeper, attack):
        named = re.findall(r"`([^`]+)`", cell)
        assert named, f"{name}: name a file in backticks, got {cell!r}"
        if "planned" in cell:
            continue
        for reference in named:
            file, _, function = reference.partition("::")
            path = tree.ROOT / file
            assert path.exists(), f"{name}: {file} does not exist"
            assert not function or function in functions_of(path.read_text(encoding="utf-8")), f"{name}: {reference}"


def test_what_is_known_of_others_is_shown_by_tests_that_exist() -> None:
    found = rows("ARCHITECTURE.md", heading="Corruptions that are known of Flink's HA layer")
    assert len(found) > 30
    for known, _, here in found:
        named = re.findall(r"`(tests/[^`]+)`", here)
        assert named or "planned" in here or "cannot happen" in here or "the same tests" in here, known
        for reference in named:
            file, _, function = reference.partition("::")
            assert (tree.ROOT / file).exists(), f"{known}: {file}"
            source = (tree.ROOT / file).read_text(encoding="utf-8")
            assert not function or function in functions_of(source), f"{known}: {reference}"


def functions_of(source: str) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_the_changelog_speaks_of_this_version() -> None:
    version = tomllib.loads(text_of("pyproject.toml"))["project"]["version"]
    headings = re.findall(r"^## (.+)$", text_of("CHANGELOG.md"), flags=re.MULTILINE)
    assert headings, "CHANGELOG.md has no section"
    assert version in headings[0] or "Unreleased" in headings[0]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_relative_links_lead_somewhere(document: str) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", text_of(document))
    assert not [target for target in targets if not (tree.ROOT / target).exists()]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_examples_parse(document: str) -> None:
    for example in re.findall(r"```python\n(.*?)```", text_of(document), flags=re.DOTALL):
        ast.parse(example)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_targets_exist(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), flags=re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", text_of(document))) <= targets


def test_every_dependency_has_its_reason() -> None:
    listed = re.findall(r'^(?:  "|\w+ = \[")[\w\[\]-]+[><=].*$', text_of("pyproject.toml"), flags=re.MULTILINE)
    assert len(listed) > 15
    assert not [line for line in listed if " # " not in line]
