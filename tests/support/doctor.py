"""A doctor for a test: all lines, by check, with any clock and without a driver of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tenure.agent.child import Child, Start
from tenure.clock import Clock, SystemClock
from tenure.coordination.examination import Grade, Remark
from tenure.doctor.case import Case
from tenure.doctor.checks import CHECKS, examine
from tenure.settings import Settings


def no_driver(member: str) -> Child:
    """For tests without `--for`."""
    raise AssertionError("no pipeline file is given")


def lines_of(
    *,
    pipeline_file: str | None = None,
    clock: Clock | None = None,
    start_driver: Start = no_driver,
    only: Collection[str] = (),
    **settings: Any,
) -> Mapping[str, Sequence[Remark]]:
    """Check -> its lines. `only`: these checks; empty: all."""
    checks = [check for check in CHECKS if not only or check.name in only]
    found: dict[str, list[Remark]] = {}
    with Case(Settings(**settings), pipeline_file, clock or SystemClock(), start_driver) as case:
        for line in examine(case, checks):
            found.setdefault(line.check, []).append(line.remark)
    return found


def bad(lines: Mapping[str, Sequence[Remark]]) -> list[str]:
    """The checks with a bad line."""
    return [check for check, remarks in lines.items() if any(one.grade is Grade.BAD for one in remarks)]
