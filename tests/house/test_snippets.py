"""Every command and every snippet of README and docs is run or parsed by what it is written for."""

from __future__ import annotations

import configparser
import io
import itertools
import re
import textwrap
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.console import Console

from demo.run import Figures, report
from tenure.backends.registry import open_store
from tenure.cli.commands import COMMANDS, app_of
from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.settings import load_settings
from tests.docs import blocks
from tests.docs.blocks import Block
from tests.house import tree
from tests.house.test_documents import NOT_OF_ERRORS, all_errors

PROGRAMS = {
    ".",
    "cat",
    "cd",
    "curl",
    "docker",
    "etcdctl",
    "export",
    "git",
    "kill",
    "kubectl",
    "make",
    "mkdir",
    "pip",
    "python",
    "python3",
    "sudo",
    "tenure",
}
"""What a block of commands may call."""

WIDEST = 50
"""Columns of a diagram: what is wider scrolls on a small screen, where nobody looks for it."""


def of_kind(kind: str) -> list[Block]:
    return [block for block in blocks.all_blocks(kind.partition(" ")[0]) if block.kind == kind]


def sh() -> list[Block]:
    return blocks.all_blocks("sh")


def test_every_page_has_its_blocks_read() -> None:
    assert "README.md" in blocks.pages()
    assert blocks.START in blocks.pages()
    for page in blocks.pages():
        text = (tree.ROOT / page).read_text(encoding="utf-8")
        fences = len(re.findall(r"^\s*(?:```|~~~)", text, flags=re.MULTILINE))
        assert fences == 2 * len(blocks.FENCE.findall(text)), f"{page} has a fence that is not read"


def test_no_block_is_of_a_kind_that_nothing_runs() -> None:
    languages = {block.language for page in blocks.pages() for block in blocks.blocks_of(page)}
    unknown = [f"{one}: {one.kind!r}" for one in blocks.all_blocks(*languages) if not blocks.is_known(one)]
    assert not unknown, f"name what runs it in {blocks.__name__}"


def test_what_runs_a_kind_is_there() -> None:
    for test in {*blocks.KINDS.values(), blocks.START_TEST}:
        assert (tree.ROOT / test).exists(), test


@cache
def all_of_tenure() -> Any:
    """The command line, built once: that takes as long as to parse some hundred lines."""
    return typer.main.get_command(app_of(COMMANDS))


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command of `tenure` that these words name, and the words behind its name."""
    command: Any = all_of_tenure()
    rest = words
    while rest and rest[0] in getattr(command, "commands", {}):
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


def test_the_commands_of_the_blocks_are_commands(subtests: pytest.Subtests) -> None:
    for block in sh():
        with subtests.test(str(block)):
            for words in blocks.commands(block.text):
                check_command(words)


def check_command(words: list[str]) -> None:
    assert words[0] in PROGRAMS, words
    if words[0] == "tenure":
        parse(words[1:])
    elif words[0] == "make":
        check_make(words[1:])
    elif words[0] == "pip":
        check_pip(words[1:])
    elif words[0] in ("docker", "kubectl"):
        check_files(words)


def parse(words: list[str]) -> None:
    """Let the real command line parse it: an unknown command or flag raises."""
    command, rest = command_of(words)
    assert not getattr(command, "commands", None), f"{words} is no command"
    command.make_context("tenure", list(rest))


def test_the_parser_refuses_what_is_not_there() -> None:
    with pytest.raises(typer.TyperException):
        parse(["list", "--nonsense"])
    with pytest.raises(AssertionError):
        parse(["nonsense"])


def check_make(words: list[str]) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (tree.ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert words[0] in targets
    given = dict(word.split("=", 1) for word in words[1:])
    assert given.keys() <= {"NAME", "ARGS", "STORE", "PYTHON", "SPARK"}
    sources = [tree.ROOT / "tests" / "soak" / "__main__.py"]
    if words[0] == "bench":
        sources = [*(tree.ROOT / "bench").glob(f"{given['NAME']}*.py"), *(tree.ROOT / "bench").glob("harness.py")]
        assert len(sources) > 1, f"no bench is named {given['NAME']}"
    text = "".join(source.read_text(encoding="utf-8") for source in sources)
    for flag in re.findall(r"--[a-z0-9-]+", given.get("ARGS", "")):
        assert f'"{flag}"' in text, f"{words}: {flag} is no flag of it"


def check_pip(words: list[str]) -> None:
    extras = tomllib.loads((tree.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert words[0] == "install"
    for listed in re.findall(r"\[([\w,-]+)\]", " ".join(words[1:])):
        assert set(listed.split(",")) <= set(extras)


def check_files(words: list[str]) -> None:
    """The folders and files of the tree that a command names are there."""
    named = [file for flag, file in itertools.pairwise(words) if flag in ("-k", "-f")]
    assert named or words[1] not in ("apply", "build"), words
    assert not [file for file in named if not (tree.ROOT / file).exists()], words


def test_extras_that_the_pages_name_are_there() -> None:
    extras = tomllib.loads((tree.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {page: re.findall(r"tenure\[(\w+)\]", (tree.ROOT / page).read_text("utf-8")) for page in blocks.pages()}
    known = set(extras["optional-dependencies"])
    assert not {page: set(names) - known for page, names in named.items() if set(names) - known}


def test_commands_in_the_sentences_of_the_pages_are_commands(subtests: pytest.Subtests) -> None:
    for page in blocks.pages():
        for text in blocks.inline_commands(page):
            with subtests.test(f"{page}: {text}"):
                check_inline(text)


def check_inline(text: str) -> None:
    for one in re.findall(r"tenure [^,]+", re.sub(r"[\[\]]", " ", text)):
        command, rest = command_of(one.split()[1:])
        of_all = command.name == all_of_tenure().name
        assert not of_all or (rest and all(word.startswith("-") for word in rest)), f"{text!r} is no command"
        known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        flags = {word for word in rest if word.startswith("-")} - {"--help", "-h"}
        assert flags <= known, f"{text!r}: {flags - known}"


@pytest.mark.parametrize("block", of_kind("toml"), ids=str)
def test_the_settings_load_it(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tenure.toml").write_text(block.text)
    monkeypatch.chdir(tmp_path)
    loaded = load_settings()
    for name, value in tomllib.loads(block.text).items():
        assert getattr(loaded, name) is not None
        assert not isinstance(value, str | int) or name in type(loaded).model_fields
    if loaded.store:
        named = loaded.model_copy(update={"store_password": "the user's"})
        open_store_of(named.store_url(), tmp_path).close()


def open_store_of(url: str, folder: Path) -> CoordinationStore:
    """The store of a URL, with files of this folder in the place of its certificates; nothing is connected to."""
    for name in re.findall(r"/etc/tls/([\w.]+)", url):
        (folder / name).write_text("")
    return open_store(url.replace("/etc/tls", str(folder)), clock=SystemClock())


@pytest.mark.parametrize("block", of_kind("ini tenure.service"), ids=str)
def test_the_unit_starts_a_member(block: Block) -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign] # systemd's names have capitals
    unit.read_string(block.text)
    service = unit["Service"]
    words = service["ExecStart"].split()
    assert words[0].endswith("/tenure")
    parse(words[1:])
    codes = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert codes <= {kind.exit_code for kind in all_errors()} | NOT_OF_ERRORS
    listed = {int(row[0]) for row in exit_code_rows() if row[-1].startswith("no")}
    assert codes == listed, "the codes of the page that a person has to look at"


def exit_code_rows() -> list[list[str]]:
    text = (tree.ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| \d+ ", line)]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


@pytest.mark.parametrize("block", of_kind("python lead"), ids=str)
def test_a_process_leads(block: Block, tmp_path: Path) -> None:
    published: list[int] = []
    names = {"report": "a report", "publish": lambda report, *, fencing_token: published.append(fencing_token)}
    exec(textwrap.dedent(block.text).replace("/var/lib/tenure", str(tmp_path)), names)
    assert published == [1]
    assert Scope("nightly-report") in block.text


@pytest.mark.parametrize("block", of_kind("text demo"), ids=str)
def test_the_demo_prints_it(block: Block) -> None:
    console = Console(file=io.StringIO(), width=80)
    report(Figures(store="sqlite", rows_in=336776, rows_out=336776, takeover_seconds=[0.0, 0.0]), console)
    assert isinstance(console.file, io.StringIO)
    rows = [row.split("│")[1].strip() for row in console.file.getvalue().splitlines() if row.startswith("│")]
    shown = [row.split("│")[1].strip() for row in block.text.splitlines() if row.startswith("│")]
    assert shown == [row for row in rows if row in shown], "the page may leave rows out, and changes none"
    source = (tree.ROOT / "demo" / "run.py").read_text(encoding="utf-8")
    for line in re.findall(r"^\* [\w-]+ (.*?)[\d.]* *(?:s after the fault)?$", block.text, flags=re.MULTILINE):
        assert line in source, line


def test_each_diagram_fits_on_a_small_screen() -> None:
    lines = [(block, line) for block in of_kind("text diagram") for line in block.text.splitlines()]
    assert not [(str(block), line) for block, line in lines if len(line) > WIDEST]
    assert not [(str(block), line) for block, line in lines if not line.isascii()], "of another width in some fonts"
