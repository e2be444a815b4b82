"""Run a target's sessions of pytest, all of them whatever fails, and end with every failure and one line of counts.

`python -m tests.run check|test|rest|...` runs one of `TARGETS`; `python -m tests.run summary TARGET...` prints
what became of targets that ran before. `--then TARGET` runs another target of the Makefile after the session that
mostly waits, beside the sessions with JVMs. Promise: exit status 0 only if everything ran and passed. A session that
crashed, was interrupted or left processes counts as failed, and so does a step of lint. The last line is `N passed, N
failed`, with `, N skipped` where some were; `--counts-later` leaves it to a summary, and the table of minutes, too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Final

from tests import draw, jvm_start, tally, unchanged
from tests.groups import GATE_GROUP, LONG, OTHER_SPARK, OTHER_SPARK_DRAWN, PURE, REST, UNDRAWN, Session, sessions
from tests.properties import HUNT

ROOT: Final = Path(__file__).resolve().parents[1]
KEPT: Final = ROOT / "build" / "tests"
LINT: Final = (("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",), ("lint-imports",))
TARGETS: Final[Mapping[str, Sequence[str]]] = {
    "check": (PURE,),
    "test": (PURE, GATE_GROUP),
    "rest": (REST,),
    "other-spark": (PURE, GATE_GROUP, REST),
    "undrawn": (UNDRAWN,),
    "whole-other-spark": (GATE_GROUP, REST, UNDRAWN),
    "long": (LONG,),
}
ONLY: Final[Mapping[str, Sequence[str]]] = {
    "other-spark": OTHER_SPARK,
    "whole-other-spark": ("tests/crash", "tests/spark"),
}
"""Targets that run some folders or files only. A release may stand behind their names: `other-spark-4.1`."""
_RELEASE: Final = re.compile(r"(?<=other-spark)-\d+\.\d+\Z")
BESIDE: Final = ("rest",)
"""Targets whose first session, which mostly waits, runs beside the sessions with JVMs, and gives way to them."""
GIVES_WAY: Final = ("nice", "-n", "5")
ALONE: Final = ("long", "other-spark")
"""Targets whose tests run one at a time: the other Spark runs beside two workers, and a query fails if its Python
process is not up within ten seconds."""
LINTED: Final = ("check", "test")
LINT_FAILED: Final = "lint failed: "
OUTCOME: Final = "outcome.json"
NO_TESTS: Final = 5
"""pytest's exit status when none was selected, which is no failure."""
_PROGRAMS: Final = ("TENURE_TEST_ETCD", "TENURE_TEST_KUBE_APISERVER", "TENURE_TEST_WEED")
NOTHING_STARTS: Final = {**dict.fromkeys(("JAVA_HOME", *_PROGRAMS), "/none"), "CI": "true"}
"""So that a test which starts a server after all is found: what cannot be started is an error then."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of pytest."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Outcome:
    """What became of a target."""

    passed: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    """Session -> how long it took."""
    folders: dict[str, Mapping[str, tuple[int, float]]] = field(default_factory=dict)
    """Session -> the tests of each folder, and their seconds, of all workers together."""
    then: list[str] = field(default_factory=list)
    """The targets that ran after its first session, beside the others."""

    def closing(self) -> str:
        """The counts, in one line."""
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {len(self.failed)} failed{skipped}"


def kind_of(target: str) -> str:
    """The target of the table, without a release."""
    return _RELEASE.sub("", target)


def runs_of(target: str) -> Iterator[Run]:
    """The runs of pytest of a target, in order."""
    groups = TARGETS[kind_of(target)]
    extra = environment(target)
    for session in sessions()[: 1 if target == "check" else None]:
        if not (chosen := folders(session, target)):
            continue
        flags = [*(f"--group={group}" for group in groups), "--durations=20"]
        flags += at_a_time(workers_of(session, target), by_folder=session.by_folder)
        if target == "check":
            flags += ["-p", unchanged.__name__]
        yield Run(session.name, (*flags, *chosen), extra)
    if target == "long":
        hunt = ("-m", "hypothesis", "--hypothesis-profile=hunt", f"--timeout={HUNT * 600}")
        yield Run("properties", (*hunt, *folders(sessions()[0], target)))


def workers_of(session: Session, target: str) -> int:
    """How many tests of a session run at a time."""
    if kind_of(target) in ALONE:
        return 1
    return 2 if target == "check" else session.beside if target in BESIDE else session.workers


def environment(target: str) -> Mapping[str, str]:
    """The variables that the runs of a target have beside this process's own. The long tests have JVMs as users do."""
    if target == "check":
        return NOTHING_STARTS
    if target == "long":
        return {}
    archive = jvm_start.class_archive()
    if archive is None:
        say("no archive of Spark's classes can be made: each JVM reads and verifies them, and starts slowly")
    release = {draw.OTHER_RELEASE: "yes"} if kind_of(target) in ONLY else {}
    return {jvm_start.OPTIONS: jvm_start.with_archive(jvm_start.LIGHTLY, archive), **release}


def folders(session: Session, target: str) -> list[str]:
    whole = [f"tests/{name}" for name in session.folders]
    chosen = list(ONLY.get(kind_of(target), whole))
    if kind_of(target) == "other-spark":
        chosen += [path for name in sorted(draw.drawn()) for path in OTHER_SPARK_DRAWN.get(name, ())]
    return [path for path in chosen if path.split("/")[1] in session.folders]


def at_a_time(workers: int, *, by_folder: bool) -> list[str]:
    if workers == 1:
        return []
    order = ["--no-loadscope-reorder"] if by_folder else []
    return ["-n", str(workers), "--dist", "loadfile", *order]


def run(target: str, then: Sequence[str] = ()) -> Outcome:
    """Run the first session beside the others, or with lint beside it and before the others. `then`: targets of the
    Makefile that run after it, beside the others."""
    outcome = Outcome(then=list(then))
    shutil.rmtree(KEPT / target, ignore_errors=True)
    (KEPT / target).mkdir(parents=True)
    first, *others = runs_of(target)
    try:
        if target in BESIDE:
            with beside(target, first, then, outcome):
                in_turn(target, others, outcome)
        else:
            with lint(outcome) if target in LINTED else nullcontext():
                in_turn(target, [first], outcome)
            in_turn(target, others, outcome)
    except KeyboardInterrupt:
        outcome.failed.append("interrupted: what comes later was not run")
    (KEPT / target / OUTCOME).write_text(json.dumps(asdict(outcome)), encoding="utf-8")
    return outcome


@contextmanager
def beside(target: str, first: Run, then: Sequence[str], outcome: Outcome) -> Iterator[None]:
    """Run a session, which gives way, and then other targets beside the block. Their output comes at its end."""
    stopped = threading.Event()

    def one_after_the_other() -> None:
        with (
            open(KEPT / target / f"{first.name}.log", "w", encoding="utf-8") as log,
            started(target, first, outcome, log=log),
        ):
            pass
        for name in then:
            if not stopped.is_set():
                with open(KEPT / target / f"{name}.log", "w", encoding="utf-8") as log:
                    command = ["make", "--no-print-directory", name, "COUNTS=later"]
                    subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, check=False)  # it keeps its outcome

    with ThreadPoolExecutor(1) as pool:
        lane = pool.submit(one_after_the_other)
        try:
            yield
        except KeyboardInterrupt:
            stopped.set()
            raise
        finally:
            failure = lane.exception()
            for log in sorted((KEPT / target).glob("*.log"), key=lambda path: path.stat().st_mtime):
                say(f"== {target}: {log.stem} ==", log.read_text("utf-8", "replace").rstrip())
            if failure is not None:
                raise failure


def in_turn(target: str, runs: Sequence[Run], outcome: Outcome) -> None:
    """Run these one after the other."""
    for one in runs:
        say(f"== {target}: {one.name} ==")
        with started(target, one, outcome):
            pass


@contextmanager
def started(target: str, run: Run, outcome: Outcome, *, log: IO[str] | None = None) -> Iterator[None]:
    """Run one of them beside the block, and add what became of it. `log`: it gives way to others, and its output goes
    there."""
    file = KEPT / target / f"{run.name}.tally"
    flags = ["-p", tally.__name__, f"--tally={file}", "--continue-on-collection-errors"]
    command = [*(GIVES_WAY if log else ()), sys.executable, "-m", "pytest", *flags, *run.arguments]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **run.environment}, stdout=log, stderr=log)
    try:
        yield
        process.wait()
    finally:  # interrupted, it ends what its tests have started
        add(outcome, run.name, process.wait(), tally.read(file))


def add(outcome: Outcome, name: str, status: int, found: tally.Tally | None) -> None:
    """Add a session that ended with this status; `found` None: it never came to its summary."""
    if found is not None:
        outcome.passed += found.passed
        outcome.skipped += found.skipped
        outcome.failed += found.failed
        outcome.folders[name] = found.folders
        outcome.seconds[name] = found.seconds
    if found is None:
        outcome.failed.append(f"session {name!r}: pytest ended with {status} before its summary")
    elif not (status in (0, NO_TESTS) or (status == 1 and found.failed)):
        outcome.failed.append(f"session {name!r}: pytest ended with {status}; it says why, above")


@contextmanager
def lint(outcome: Outcome) -> Iterator[None]:
    """All steps of lint, beside the block; what they say comes after it."""
    with open(KEPT / "lint.log", "w+", encoding="utf-8") as log:
        command = [sys.executable, "-m", "tests.run", "lint"]
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            status = process.wait()
            log.seek(0)
            said = log.read()
            say("== lint ==", said.rstrip())
    failed = [line for line in said.splitlines() if line.startswith(LINT_FAILED)]
    outcome.failed += failed or ([f"lint ended with {status}"] if status else [])


def lint_steps() -> int:
    """Every step, also after one that failed; the exit status."""
    failed = []
    for step in LINT:
        say(f"-- {' '.join(step)}")
        if subprocess.run(step, cwd=ROOT, check=False).returncode:
            failed.append(step)
    say(*(f"{LINT_FAILED}{' '.join(step)}" for step in failed))
    return 1 if failed else 0


def kept(target: str) -> Outcome:
    """What became of a target that ran before."""
    file = KEPT / target / OUTCOME
    if not file.exists():
        return Outcome(failed=["it never came to its tests"])
    return Outcome(**json.loads(file.read_text(encoding="utf-8")))


def told(outcomes: Mapping[str, Outcome]) -> list[str]:
    """Every failure of some targets, and the line of counts."""
    lines = [f"{target}: {failure}" for target, outcome in outcomes.items() for failure in outcome.failed]
    total = Outcome(
        sum(one.passed for one in outcomes.values()),
        sum(one.skipped for one in outcomes.values()),
        lines,
    )
    return [*(["== what failed ==", *lines] if lines else []), total.closing()]


def by_the_clock(target: str, outcomes: Mapping[str, Outcome]) -> float:
    """The seconds of a target: of all its sessions, or of the longest row of sessions that ran beside another row."""
    taken = outcomes[target].seconds
    if target not in BESIDE:
        return sum(taken.values())
    waiting = taken.get(sessions()[0].name, 0.0)
    then = [by_the_clock(name, outcomes) for name in map(target_of, outcomes[target].then) if name in outcomes]
    return max(waiting + sum(then), sum(taken.values()) - waiting)


def target_of(name: str) -> str:
    """The target of this program behind a target of the Makefile: `test-rest` is `rest`."""
    return name.removeprefix("test-")


def minutes(outcomes: Mapping[str, Outcome]) -> list[str]:
    """A table: the minutes of each session by the clock, and of its folders, whose tests run beside each other."""
    rows = [("target", "session", "folder", "tests", "minutes")]
    for target, outcome in outcomes.items():
        for session, seconds in outcome.seconds.items():
            folders = outcome.folders.get(session, {})
            rows.append((target, session, "", str(sum(tests for tests, _ in folders.values())), f"{seconds / 60:.1f}"))
            costly = sorted(folders.items(), key=lambda item: -item[1][1])
            rows += [("", "", folder, str(tests), f"{took / 60:.1f}") for folder, (tests, took) in costly]
    within = {target_of(name) for outcome in outcomes.values() for name in outcome.then}
    total = sum(by_the_clock(target, outcomes) for target in outcomes if target not in within)
    rows.append(("all", "", "", "", f"{total / 60:.1f}"))
    heading = "== minutes: a session's by the clock, a folder's of all workers together =="
    return [heading, *(f"{a:<18}{b:<12}{c:<14}{d:>6}{e:>9}" for a, b, c, d, e in rows)]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.run", description=__doc__)
    parser.add_argument("what", help=f"lint, summary, or one of: {', '.join(TARGETS)}")
    parser.add_argument("targets", nargs="*", help="of a summary")
    parser.add_argument("--then", nargs="*", default=[], help="targets of the Makefile, in the order of their running")
    parser.add_argument("--counts-later", action="store_true", help="a summary will print the line of counts")
    given = parser.parse_args(arguments)
    if kind_of(given.what) not in (*TARGETS, "lint", "summary"):
        parser.error(f"there is no target {given.what}")
    if given.what == "lint":
        return lint_steps()
    if given.what == "summary":
        outcomes = {target: kept(target) for target in given.targets}
    else:
        outcomes = {given.what: run(given.what, given.then)}
    *failures, counts = told(outcomes)
    if given.counts_later:
        say(*failures, f"{given.what}: {counts}")
    else:
        say(*minutes(outcomes), *failures, counts)
    return 1 if any(one.failed for one in outcomes.values()) else 0


def say(*lines: str) -> None:
    """Print at once, in order with what pytest prints."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
