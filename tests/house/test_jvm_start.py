"""The archive for the JVMs of tests: made once, lent only when a JVM maps it, and never in the way."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests import jvm_start, run
from tests.jvm_start import LIGHTLY, OPTIONS, class_archive, with_archive

MAKES, MUST_SHARE = "-XX:ArchiveClassesAtExit=", "-Xshare:on"


class Java:
    """In place of the commands that start a JVM."""

    def __init__(self) -> None:
        self.makes = True
        self.unmappable = b""  # the content of a broken archive
        self.prints = ""
        self.made = 0

    def runs(self, command: tuple[str, ...], options: str, *, folder: Path) -> str | None:
        """Make an archive, or map one."""
        flags = dict(flag.partition("=")[::2] for flag in shlex.split(options))
        assert LIGHTLY in options
        if MAKES in options:
            if self.makes:
                self.made += 1
                Path(flags[MAKES.removesuffix("=")]).write_bytes(b"classes %d" % self.made)
            return ""
        assert options.endswith(MUST_SHARE)
        content = Path(flags["-XX:SharedArchiveFile"]).read_bytes()
        return None if content == self.unmappable else self.prints


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> Java:
    java = Java()
    monkeypatch.setattr(jvm_start, "_runs", java.runs)
    return java


def test_it_is_made_once_and_nothing_else_stays(tmp_path: Path, java: Java) -> None:
    folder = tmp_path / "of tests"
    made = class_archive(folder)
    assert made is not None
    assert class_archive(folder) == made
    assert (list(folder.iterdir()), java.made) == ([made], 1)


def test_another_java_and_other_options_have_their_own(
    tmp_path: Path, java: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {class_archive(tmp_path), class_archive(tmp_path, options=f"{LIGHTLY} -Xmx1g")}
    other = tmp_path / "other" / "bin" / "java"
    other.parent.mkdir(parents=True)
    other.write_text("#!/bin/sh\necho another Java >&2\n")
    other.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(other.parents[1]))
    made.add(class_archive(tmp_path))
    assert None not in made
    assert len(made) == 3


def test_a_broken_archive_is_made_again(tmp_path: Path, java: Java) -> None:
    made = class_archive(tmp_path)
    assert made is not None
    made.write_bytes(b"cut")
    java.unmappable = b"cut"
    assert class_archive(tmp_path) == made
    assert made.read_bytes() == b"classes 2"


@pytest.mark.parametrize("fault", [{"makes": False}, {"unmappable": b"classes 1"}, {"prints": "[warning][cds]"}])
def test_an_archive_that_does_not_serve_is_not_kept(tmp_path: Path, java: Java, fault: dict[str, object]) -> None:
    for name, value in fault.items():
        setattr(java, name, value)
    assert class_archive(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_without_a_java_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/none")
    assert class_archive(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_jvm_says_nothing_of_an_archive_that_it_cannot_use() -> None:
    options = shlex.split(with_archive(LIGHTLY, Path("/a folder/x.jsa")))
    assert options[:2] == LIGHTLY.split()
    assert options[2:] == ["-Xshare:auto", "-XX:SharedArchiveFile=/a folder/x.jsa", "-Xlog:cds*=off"]
    assert with_archive(LIGHTLY, None) == LIGHTLY


@pytest.mark.parametrize("target", ["test", "rest"])
def test_tests_run_with_it_or_say_that_they_do_not(
    target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = Path("/x.jsa")
    monkeypatch.setattr(jvm_start, "class_archive", lambda: archive)
    assert {one.environment[OPTIONS] for one in run.runs_of(target)} == {with_archive(LIGHTLY, archive)}
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(jvm_start, "class_archive", lambda: None)
    assert {one.environment[OPTIONS] for one in run.runs_of(target)} == {LIGHTLY}
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize("target", ["check", "long"])
def test_pure_and_long_tests_run_without_it(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm_start, "class_archive", lambda: pytest.fail("it starts a JVM"))
    assert all(OPTIONS not in one.environment for one in run.runs_of(target))
