"""Run the mutants: `python -m tests.mutants.run [name ...]`; without a name, all of them.

Promise: a mutant counts as killed only if each test that it names was run on the changed copy, and failed in the test
itself. A test that could not be set up, a mutant that does not fit the sources any more, and one that breaks the
program by a mistake of its own (a name that is not there) are errors. The same tests must pass on a copy without a
change. Exit status: 0 all killed, 1 a mutant survived, 2 an error.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenure.clock import SystemClock
from tests.house.tree import ROOT
from tests.kit.waiting import NEVER_S
from tests.mutants import verdicts
from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import PACKAGE, DoesNotApply, Mutant, apply

KILLED, SURVIVED, ERROR = "killed", "SURVIVED", "ERROR"
PATIENCE_S = 900
"""For the tests of one mutant, their servers included."""
A_TEST_S = 240
"""For one test: a mutant that hangs is noticed, too."""
WAITS_S = 30
"""After so long what a test waits for counts as never: with a mutant that is the rule."""

MISTAKES = frozenset({"NameError", "UnboundLocalError", "AttributeError", "ImportError", "SyntaxError"})
"""What a test that fails by them says of the mutant: it was not written well."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant, and the lines that say why."""

    word: str
    lines: tuple[str, ...]


def main(names: Sequence[str]) -> int:
    """Judge these mutants, print the table, return the exit status."""
    known = {mutant.name: mutant for mutant in MUTANTS}
    unknown = [name for name in names if name not in known]
    if unknown:
        say(f"mutants: no such mutant: {', '.join(unknown)}; there are: {', '.join(known)}")
        return 2
    chosen = [known[name] for name in names] or list(MUTANTS)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and so would pytest
    clock = SystemClock()
    whole = unchanged(chosen)
    say(f"{whole.word}: the tests without a mutant")
    if whole.word == ERROR:
        say(*whole.lines)
        return 2
    found: dict[str, Verdict] = {}
    for mutant in chosen:
        start_s = clock.monotonic_s()
        found[mutant.name] = verdict = judge(mutant)
        took_s = clock.monotonic_s() - start_s
        say(f"{verdict.word:9}{mutant.name:34}{took_s:5.0f} s   {mutant.weakness}", *verdict.lines)
    words = [verdict.word for verdict in found.values()]
    say(f"{len(words)} mutants: " + ", ".join(f"{words.count(word)} {word}" for word in (KILLED, SURVIVED, ERROR)))
    return 2 if ERROR in words else 1 if SURVIVED in words else 0


def unchanged(mutants: Iterable[Mutant]) -> Verdict:
    """Whether all their tests pass on a copy as it is."""
    tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
    status, seen, tail = run({}, tests, patience_s=3 * PATIENCE_S)
    bad = [f"  {line['outcome']} {line['test']}: {line['error']}" for line in seen if line["outcome"] != "passed"]
    absent = [f"  was not run: {test}" for test in tests if not any(is_case(line["test"], test) for line in seen)]
    if status == 0 and not bad and not absent:
        return Verdict("passed", ())
    return Verdict(ERROR, tuple(bad + absent) or (tail,))


def judge(mutant: Mutant) -> Verdict:
    """Run its tests on a copy that it changed."""
    try:
        texts = apply(mutant)
    except (DoesNotApply, SyntaxError, FileNotFoundError) as error:
        return Verdict(ERROR, (f"  {error}",))
    changed = {path.relative_to(PACKAGE): text for path, text in texts.items()}
    status, seen, tail = run(changed, mutant.tests, patience_s=PATIENCE_S)
    if status not in {0, 1}:
        return Verdict(ERROR, (f"  pytest ended with {status}", tail))
    lines, words = [], []
    for test in mutant.tests:
        word, line = judge_test(test, [line for line in seen if is_case(line["test"], test)])
        words.append(word)
        lines.append(f"  {line}")
    return Verdict(ERROR if ERROR in words else SURVIVED if SURVIVED in words else KILLED, tuple(lines))


def judge_test(test: str, seen: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """A word for one test of a mutant, and the line of the table."""
    failed = [line for line in seen if line["outcome"] == "failed"]
    in_the_test = [line for line in failed if line["when"] == "call"]
    mistakes = [line for line in in_the_test if line["error"] in MISTAKES]
    if not seen:
        return ERROR, f"was not run: {test}"
    if mistakes:
        return ERROR, f"{test}: the mutant itself is wrong: {mistakes[0]['error']}: {mistakes[0]['words']}"
    if in_the_test:
        first = in_the_test[0]
        return KILLED, f"{first['test']}: {first['error']}: {first['words']}"[:200]
    if failed or any(line["outcome"] == "skipped" for line in seen):
        return ERROR, f"could not be run: {test}: {seen[0]['error']}: {seen[0]['words']}"[:200]
    return SURVIVED, f"passes all the same: {test}"


def run(changed: dict[Path, str], tests: Sequence[str], *, patience_s: float) -> tuple[int, list[dict[str, Any]], str]:
    """pytest's exit status on a copy of the package with these files changed, what became of each test, and the end
    of its output."""
    with tempfile.TemporaryDirectory(prefix="tenure-mutant-") as folder:
        copy, notes = Path(folder) / "src" / "tenure", Path(folder) / "notes"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for path, text in changed.items():
            (copy / path).write_text(text, encoding="utf-8")
        notes.touch()
        options = ["-q", "-p", "no:cacheprovider", "-p", verdicts.__name__, f"--timeout={A_TEST_S}"]
        command = [sys.executable, "-m", "pytest", *options, f"--basetemp={folder}/tests", *tests]
        environment = {**os.environ, "PYTHONPATH": str(copy.parent), "CI": "true", verdicts.FILE: str(notes)}
        environment["TENURE_TEST_NEVER_S"] = str(WAITS_S)
        with open(Path(folder) / "output", "w+", encoding="utf-8") as output:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
            status = wait_for(process, patience_s)
            output.seek(0)
            tail = "".join(output.readlines()[-25:])
        lines = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]
    if lines and Path(lines[0]["package"]).parent != copy:
        return 2, [], f"the copy was not tested, but {lines[0]['package']}"
    return status, lines[1:], tail


def wait_for(process: subprocess.Popen[bytes], patience_s: float) -> int:
    """Its exit status. One that takes too long is interrupted, so that it ends its servers, then killed."""
    try:
        return process.wait(timeout=patience_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=NEVER_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return 124


def is_case(nodeid: str, test: str) -> bool:
    """Whether it is this test, or one of its cases."""
    return nodeid == test or nodeid.startswith(test + "[")


def say(*lines: str) -> None:
    """Print, at once: a run takes minutes."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
