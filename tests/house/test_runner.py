"""The end of a target tells every failure, whichever way a session ended, and counts them in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import jvm_start, run, tally
from tests.house import tree
from tests.run import NO_TESTS, Outcome, add, kept, main, minutes, told
from tests.tally import Tally

FINE, RED = Tally(3, (), 1), Tally(2, ("tests/a.py::test_a",), 0)
INTERRUPTED, CRASHED, BAD_USAGE, KILLED = 2, 3, 4, -9


@pytest.mark.parametrize(
    ("status", "found", "closing", "failure"),
    [
        (0, FINE, "3 passed, 0 failed, 1 skipped", None),
        (NO_TESTS, Tally(0, (), 0), "0 passed, 0 failed", None),
        (1, RED, "2 passed, 1 failed", "tests/a.py::test_a"),
        (1, FINE, "3 passed, 1 failed, 1 skipped", "session 'x': pytest ended with 1; it says why, above"),
        (INTERRUPTED, FINE, "3 passed, 1 failed, 1 skipped", "session 'x': pytest ended with 2; it says why, above"),
        (CRASHED, RED, "2 passed, 2 failed", "session 'x': pytest ended with 3; it says why, above"),
        (BAD_USAGE, None, "0 passed, 1 failed", "session 'x': pytest ended with 4 before its summary"),
        (KILLED, None, "0 passed, 1 failed", "session 'x': pytest ended with -9 before its summary"),
    ],
)
def test_no_end_of_a_session_is_taken_for_another(
    status: int, found: Tally | None, closing: str, failure: str | None
) -> None:
    outcome = Outcome()
    add(outcome, "x", status, found)
    assert outcome.closing() == closing
    assert outcome.failed[-1:] == ([] if failure is None else [failure])


def test_the_end_names_every_failure_of_every_target() -> None:
    one, two = Outcome(3, 1, ["tests/a.py::test_a", "lint failed: mypy"]), Outcome(2, 0, ["tests/b.py::test_b"])
    assert told({"test": one, "rest": two}) == [
        "== what failed ==",
        "test: tests/a.py::test_a",
        "test: lint failed: mypy",
        "rest: tests/b.py::test_b",
        "5 passed, 3 failed, 1 skipped",
    ]
    assert told({"test": Outcome(3)}) == ["3 passed, 0 failed"]


def test_the_table_has_the_minutes_of_each_session_and_its_folders() -> None:
    one = Outcome(3, seconds={"waiting": 90.0}, folders={"waiting": {"house": (1, 30.0), "unit": (2, 150.0)}})
    _, _, *rows = [
        line.split() for line in minutes({"test": one, "rest": Outcome(seconds={"waiting": 50.0, "Spark": 60.0})})
    ]
    assert rows == [
        ["test", "waiting", "3", "1.5"],
        ["unit", "2", "2.5"],
        ["house", "1", "0.5"],
        ["rest", "waiting", "0", "0.8"],
        ["rest", "Spark", "0", "1.0"],
        ["all", "2.5"],
    ]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the runner keeps lies in a folder of the test's."""
    monkeypatch.setattr(run, "KEPT", tmp_path)
    return tmp_path


def test_a_target_that_never_came_to_its_tests_has_failed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kept("test").failed
    assert main(["summary", "test"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 1 failed"


def test_a_failing_session_hides_no_other(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does a file that cannot be collected, or a test that ends the process."""
    for name, text in {
        "broken": "import no_such_module",
        "crash": "import os\ndef test_crash(): os._exit(3)",
        "red": "def test_red(): assert 0\ndef test_green(): pass",
        "green": "import pytest\ndef test_green(): pass\n@pytest.mark.skip\ndef test_none(): pass",
    }.items():
        (here / f"test_{name}.py").write_text(text)
    sessions = [["broken", "green"], ["crash"], ["red"]]
    runs = [run.Run("+".join(names), tuple(str(here / f"test_{name}.py") for name in names)) for names in sessions]
    monkeypatch.setattr(run, "runs_of", lambda target: runs)
    assert main(["undrawn"]) == 1
    assert main(["summary", "undrawn"]) == 1
    *_, broken, crash, red, counts = capsys.readouterr().out.splitlines()
    assert broken.startswith("undrawn: ")
    assert broken.endswith("test_broken.py")
    assert crash == "undrawn: session 'crash': pytest ended with 3 before its summary"
    assert red.endswith("::test_red")
    assert counts == "2 passed, 3 failed, 1 skipped"


def test_sessions_run_beside_each_other_where_one_mostly_waits(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each of these two waits until the other one runs."""
    text = (
        "import pathlib\nfrom tests.kit.waiting import wait_until\n"
        "def test_it():\n    here = pathlib.Path(__file__)\n    here.with_suffix('.runs').touch()\n"
        "    wait_until(lambda: len([*here.parent.glob('*.runs')]) == 2)\n"
    )
    for name in ("waits", "works"):
        (here / f"test_{name}.py").write_text(text)
    runs = [run.Run(name, (str(here / f"test_{name}.py"),)) for name in ("waits", "works")]
    monkeypatch.setattr(run, "runs_of", lambda target: runs)
    assert main(["rest"]) == 0
    said = capfd.readouterr().out
    assert said.index("== rest: works ==") < said.index("== rest: waits ==")
    assert said.splitlines()[-1] == "2 passed, 0 failed"


def test_another_target_runs_after_the_session_that_mostly_waits_and_beside_the_others(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The last session waits for the other target."""
    more = here / "more.runs"
    (here / "Makefile").write_text(f"test-more:\n\t@echo it runs > {more}; cat {more}\n")
    monkeypatch.setenv("MAKEFILES", str(here / "Makefile"))
    (here / "test_waits.py").write_text(
        f"import pathlib\ndef test_it(): assert not pathlib.Path({str(more)!r}).exists()"
    )
    (here / "test_works.py").write_text(
        "import pathlib\nfrom tests.kit.waiting import wait_until\n"
        f"def test_it(): wait_until(pathlib.Path({str(more)!r}).exists)"
    )
    runs = [run.Run(name, (str(here / f"test_{name}.py"),)) for name in ("waits", "works")]
    monkeypatch.setattr(run, "runs_of", lambda target: runs)
    assert main(["rest", "--then", "test-more"]) == 0
    said = capfd.readouterr().out
    assert said.index("== rest: waits ==") < said.index("== rest: test-more ==\nit runs")
    assert kept("rest").then == ["test-more"]


def test_the_minutes_of_sessions_that_ran_beside_others_are_counted_once() -> None:
    rest = Outcome(seconds={"waiting": 120.0, "Spark": 300.0}, then=["test-other-spark"])
    other = {"rest": rest, "other-spark": Outcome(seconds={"Spark": 60.0}), "test": Outcome(seconds={"waiting": 60.0})}
    assert minutes(other)[-1].split() == ["all", "6.0"]
    other["other-spark"].seconds["Spark"] = 240.0
    assert minutes(other)[-1].split() == ["all", "7.0"]


def test_what_passes_and_fails_at_its_end_has_failed(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.fixture\ndef ends_badly():\n    yield\n    assert 0\n"
        "def test_it(ends_badly): pass\ndef test_other(): pass\n"
    )
    file = tmp_path / "tally"
    command = [sys.executable, "-m", "pytest", "-q", "-p", tally.__name__, f"--tally={file}", str(tmp_path)]
    subprocess.run(command, cwd=tree.ROOT, capture_output=True, check=False)
    found = tally.read(file)
    assert found is not None
    assert (found.passed, len(found.failed)) == (1, 1)
    assert sum(tests for tests, _ in found.folders.values()) == 2


def test_tests_with_jvms_run_folder_by_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """By count, which is pytest-xdist's way, folders alternate, and each change of folder starts a JVM."""
    monkeypatch.setattr(jvm_start, "class_archive", lambda: None)
    waiting, spark = run.runs_of("rest")
    assert "--no-loadscope-reorder" not in waiting.arguments
    assert "--no-loadscope-reorder" in spark.arguments


@pytest.mark.parametrize(
    ("target", "workers"),
    [("test", ["4", "3"]), ("rest", ["3", "2"]), ("undrawn", ["4", "3"]), ("check", ["2"]), ("long", [])],
)
def test_fewer_tests_run_at_a_time_where_sessions_run_beside_each_other(
    monkeypatch: pytest.MonkeyPatch, target: str, workers: list[str]
) -> None:
    monkeypatch.setattr(jvm_start, "class_archive", lambda: None)
    given = [one.arguments for one in run.runs_of(target)]
    assert [words[words.index("-n") + 1] for words in given if "-n" in words] == workers
