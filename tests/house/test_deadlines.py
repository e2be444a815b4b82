"""A test that waits gives up after `NEVER` of `tests.kit.waiting`: its own number is too short on some machine.

Not judged: times below `SHORT_S`, in which a scenario lets something go on, and what no call of `WAITS` takes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.house import tree

SHORT_S = 5
WAITS = frozenset(
    {
        *("wait_until", "wait", "wait_for", "wait_arrived", "wait_until_blocked", "wait_until_ready"),
        *("wait_for_batches", "settle", "join", "result", "communicate", "run", "urlopen", "close", "end_session"),
        "awaitTermination",
    }
)
DEADLINES = frozenset({"timeout", "timeout_s", "real_timeout", "seconds", "patience_s", "deadline_s"})


def seconds(node: ast.expr) -> float:
    """How long a literal lasts, a number or a timedelta; 0: it is neither."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "timedelta":
        given = {word.arg: word.value for word in node.keywords}
        known = {name: value.value for name, value in given.items() if name and isinstance(value, ast.Constant)}
        if len(known) == len(node.keywords) and not node.args:
            return timedelta(**known).total_seconds()  # type: ignore[arg-type] # numbers, or the test would not run
    return 0.0


def own_deadlines(source: ast.AST) -> Iterator[int]:
    """The lines of the calls that wait until a deadline of their own."""
    for call in ast.walk(source):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
        named = [word.value for word in call.keywords if word.arg in DEADLINES]
        if name in WAITS and any(seconds(one) >= SHORT_S for one in (*call.args, *named)):
            yield call.lineno


def test_no_test_has_a_deadline_of_its_own() -> None:
    found = [
        f"{module}:{line}"
        for module in tree.modules()
        if str(module).startswith("tests/")
        for line in own_deadlines(module.tree)
    ]
    assert not found, "leave the deadline out, or wait for NEVER or NEVER_S of tests.kit.waiting"


@pytest.mark.parametrize(
    ("source", "judged"),
    [
        ("wait_until(ready, timedelta(seconds=20))", True),
        ("wait_until(ready, timeout=timedelta(minutes=1), what='it')", True),
        ("thread.join(10)", True),
        ("subprocess.run(command, timeout=60)", True),
        ("cluster.wait(ready, seconds=90, what='it')", True),
        ("wait_until(ready)", False),
        ("wait_until(ready, 2 * NEVER)", False),
        ("thread.join(timeout=0.2)", False),
        ("keeper(ttl=timedelta(seconds=30))", False),
    ],
)
def test_what_counts_as_a_deadline_of_its_own(source: str, judged: bool) -> None:
    assert list(own_deadlines(ast.parse(source))) == [1] * judged
