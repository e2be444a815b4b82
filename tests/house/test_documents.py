"""What the documents say is what the code does: exit codes, invariants, links, versions, examples."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tenure
from tenure import errors
from tenure.spark.connectors import NAMES
from tenure.spark.coordinates import OF_RELEASE, Connector
from tests.house import prose, tree

PAGES = tuple(sorted(path.relative_to(tree.ROOT).as_posix() for path in (tree.ROOT / "docs").rglob("*.md")))
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "STYLE.md", "CONTRIBUTING.md", "CHANGELOG.md", *PAGES)
LINK = re.compile(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)")
# Codes that no TenureError carries: success, and what a shell reports for Ctrl-C.
NOT_OF_ERRORS = {0, 130}
INVARIANTS = tuple(f"I{number}" for number in range(1, 11))
WAYS = ("The way of a batch", "The way of a takeover", "The way of a request")
MOST_FILES = 8
"""Of a way: a reader opens each of them."""
ASKED = {
    "`Storage.puts_whole`": r"\.puts_whole\b",
    "`Storage.keeps_folders`": r"\b(?:storage|_storage)\.keeps_folders\b",
    "`Storage.local_folder`": r"\breach\(.*\)\.local_folder\b",
    "`path_on_disk` (`storage/urls.py`)": r"\bpath_on_disk\(",
    "`disk` of a table's location": r"\b(?:location|self)\.disk\b",
    "`storage/engines.py`": r"\bfrom tenure\.storage\.engines import\b",
    "`OBJECT_FILES` (`spark/own_classes.py`)": r"\bOBJECT_FILES\b(?!:)",
}
"""What a room asks of a storage -> how the code does."""


def text_of(name: str) -> str:
    return (tree.ROOT / name).read_text(encoding="utf-8")


def rows(document: str, *, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its first two lines."""
    section = re.split(rf"^#{{1,3}} {re.escape(heading)}$", text_of(document), maxsplit=1, flags=re.MULTILINE)[1]
    section = section.split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines[2:]]


def all_errors() -> list[type[errors.TenureError]]:
    found = [errors.TenureError]
    for kind in found:
        found.extend(kind.__subclasses__())  # grows while it is walked: the whole family
    return [kind for kind in found if kind.__module__ == errors.__name__]


def test_exit_codes_of_the_page_are_those_of_the_errors() -> None:
    documented = [int(cells[0].strip("`")) for cells in rows("docs/exit-codes.md", heading="Exit codes")]
    assert len(documented) == len(set(documented))
    assert set(documented) == {kind.exit_code for kind in all_errors()} | NOT_OF_ERRORS


def test_each_error_is_exported_and_on_the_page() -> None:
    family = {kind.__name__: kind for kind in all_errors()}
    assert not {name for name, kind in family.items() if getattr(tenure, name, None) is not kind}
    assert not family.keys() - set(tenure.__all__)
    found = rows("docs/errors.md", heading="All errors")
    assert {cells[0].strip("`"): int(cells[-1]) for cells in found} == {
        name: kind.exit_code for name, kind in family.items()
    }
    assert len(found) == len(family)
    raised = "".join(cells[1] for cells in rows("docs/errors.md", heading="Which call raises which"))
    assert set(re.findall(r"`([A-Z]\w+)`", raised)) - family.keys() == {"TimeoutError"}


def test_the_connectors_of_the_page_are_those_of_the_code() -> None:
    table: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name in NAMES:
        for (release, scala), known in OF_RELEASE.items():
            tested = known[name]
            packages = tested.packages if isinstance(tested, Connector) else ()
            other = release == "3.5" and scala == "2.13"
            table.setdefault((name, packages), []).append(f"{release} (Scala 2.13)" if other else release)
    assert [cells[:3] for cells in rows("docs/releases.md", heading="Connectors")] == [
        [f"`{name}`", ", ".join(releases), ", ".join(f"`{one}`" for one in packages) or "none"]
        for (name, packages), releases in table.items()
    ]


def test_each_way_has_few_files_and_they_are_there() -> None:
    files = {way: [cells[0].strip("`") for cells in rows("ARCHITECTURE.md", heading=way)] for way in WAYS}
    assert not {way: found for way, found in files.items() if not 0 < len(found) <= MOST_FILES}
    package = tree.ROOT / "src" / "tenure"
    assert not [file for found in files.values() for file in found if not any(package.glob(file))]


def test_what_rooms_ask_a_storage_is_told() -> None:
    """So a reader finds each place in which the code does something else for S3 than for a disk."""
    told = {
        cells[0]: sorted(re.findall(r"`([^`]+)`", cells[-1]))
        for cells in rows("ARCHITECTURE.md", heading="What rooms ask a storage")
    }
    others = [module for module in tree.product() if not module.name.startswith("tenure.storage")]
    assert told == {
        asked: sorted(str(module).removeprefix("src/tenure/") for module in others if re.search(pattern, module.text))
        for asked, pattern in ASKED.items()
    }


def invariant_rows() -> dict[str, list[str]]:
    return {cells[0].strip("*").split()[0]: cells for cells in rows("ARCHITECTURE.md", heading="Invariants")}


def test_every_invariant_has_its_row() -> None:
    assert tuple(invariant_rows()) == INVARIANTS


def test_each_invariant_has_a_keeper_and_a_test_that_attacks_it() -> None:
    cells = [(name, cell) for name, row in invariant_rows().items() for cell in row[-2:]]
    nothing = [f"{name}: name a file in backticks, got {cell!r}" for name, cell in cells if "`" not in cell]
    gone = [
        f"{name}: {reference}"
        for name, cell in cells
        if "planned" not in cell
        for reference in re.findall(r"`([^`]+)`", cell)
        if not is_there(*reference.split("::"))
    ]
    assert not nothing + gone


def test_what_is_known_of_others_is_shown_by_tests_that_exist() -> None:
    found = rows("docs/internals/flink.md", heading="Corruptions that are known of Flink's HA layer")
    assert len(found) > 30
    for known, _, here in found:
        named = re.findall(r"`(tests/[^`]+)`", here)
        assert named or "planned" in here or "cannot happen" in here or "the same tests" in here, known
        gone = [reference for reference in named if not is_there(*reference.split("::"))]
        assert not gone, known


def is_there(file: str, *names: str) -> bool:
    """Whether the file is in the tree, with functions or classes of these names."""
    path = tree.ROOT / file
    if not names or not path.exists():
        return path.exists()
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {*names} <= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_the_changelog_speaks_of_this_version() -> None:
    version = tomllib.loads(text_of("pyproject.toml"))["project"]["version"]
    headings = re.findall(r"^## (.+)$", text_of("CHANGELOG.md"), flags=re.MULTILINE)
    assert headings, "CHANGELOG.md has no section"
    assert version in headings[0] or "Unreleased" in headings[0]


def test_relative_links_lead_somewhere() -> None:
    nowhere = []
    for document in DOCUMENTS:
        for name, heading in LINK.findall(prose_of(document)):
            target = Path(os.path.normpath((tree.ROOT / document).parent / name)) if name else tree.ROOT / document
            if not target.exists() or (heading and heading not in anchors_of(target)):
                nowhere.append(f"{document}: {name}#{heading}")
    assert not nowhere


def prose_of(document: str) -> str:
    """The text without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text_of(document), flags=re.MULTILINE | re.DOTALL)


def anchors_of(target: Path) -> set[str]:
    """What a link can name in a page: its headings, as repository browsers and Sphinx spell them."""
    headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_contents() -> None:
    contents = [page for page in PAGES if page.endswith("/index.md")]
    listed = {
        page.replace("index.md", f"{name}.md")
        for page in contents
        for name in re.findall(r"^([\w-]+(?:/index)?)$", text_of(page), flags=re.MULTILINE)
    }
    assert listed == {*PAGES} - {"docs/index.md"}
    linked = {f"docs/{name}" for name in re.findall(r"\(docs/([\w-]+\.md)\)", text_of("README.md"))}
    assert linked == {page for page in PAGES if page.count("/") == 1} - {"docs/index.md"}


def test_the_sentences_of_the_pages_name_their_subject() -> None:
    assert not [
        f"{page}: {sentence}"
        for page in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", *PAGES)
        for sentence in prose.hidden_subjects(prose.of_page(text_of(page)))
    ]


def test_the_pages_are_built_without_a_warning(tmp_path: Path) -> None:
    """As `make docs` builds them; a link or a reference that leads nowhere is a warning."""
    command = ["-m", "sphinx", "-W", "--keep-going", "-n", "-E", "-q", "-b", "html", "-d", str(tmp_path / "doctrees")]
    made = re.search(r"python (-m sphinx .*) -d build/doctrees docs build/docs", text_of("Makefile"))
    assert made is not None
    assert made[1].split() == command[: command.index("-d")]
    built = subprocess.run(
        [sys.executable, *command, "docs", str(tmp_path / "out")],
        cwd=tree.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    page = {
        name: (tmp_path / "out" / f"{name}.html").read_text(encoding="utf-8") for name in ("settings", "api", "cli")
    }
    assert "TENURE_CHECKPOINTS_KEPT" in page["settings"]
    assert not [name for name in tenure.__all__ if f'id="tenure.{name}"' not in page["api"]], "name them in docs/api.md"
    assert "tenure batch quarantine" in page["cli"]


def test_python_examples_parse(subtests: pytest.Subtests) -> None:
    for document in DOCUMENTS:
        for example in re.findall(r"```python\n(.*?)```", text_of(document), flags=re.DOTALL):
            with subtests.test(document):
                ast.parse(example)


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), flags=re.MULTILINE))
    named = {document: set(re.findall(r"`make ([a-z-]+)", text_of(document))) for document in DOCUMENTS}
    assert not {document: names - targets for document, names in named.items() if names - targets}


def test_every_dependency_has_its_reason() -> None:
    listed = re.findall(r'^(?:  "|\w+ = \[")[\w\[\]-]+[><=].*$', text_of("pyproject.toml"), flags=re.MULTILINE)
    assert len(listed) > 15
    assert not [line for line in listed if " # " not in line]
