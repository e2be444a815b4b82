"""`tenure doctor`: one line a check; exit code 14 where a member could not lead, or not safely."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated

import typer

from tenure.assembly import start_spark_driver
from tenure.cli.options import OutputOption, takes_settings
from tenure.cli.output import Output, note, print_document
from tenure.clock import SystemClock
from tenure.coordination.examination import Grade
from tenure.doctor.case import Case
from tenure.doctor.checks import CHECKS, DoctorLine, examine, is_not_made
from tenure.errors import UnsafeToLead
from tenure.settings import Settings

_WIDTH = max(len(check.name) for check in CHECKS) + 2


@takes_settings(
    *("store", "storage", "scope", "pipeline_file", "params", "conf", "master", "connector", "packages"),
    *("jars", "py_files", "submit", "ttl", "member", "new_stream", "drop_stream", "changed_query", "changed_source"),
    *("changed_zone", "stop_patience", "http", "spark_log", "event_log"),
)
def doctor(
    settings: Settings,
    pipeline_file: Annotated[
        str | None, typer.Option("--for", metavar="PIPELINE.py", help="The pipeline that a member would run here.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Could a member lead here? Each line names a fact, its meaning and the fix. Nothing that it writes stays.

    Example: tenure doctor --for flights.py
    """
    lines: list[DoctorLine] = []
    with _interrupted(), Case(settings, pipeline_file, SystemClock(), start_spark_driver) as case:
        for line in examine(case):
            lines.append(line)
            if not output.is_data:
                sys.stdout.write(text_of(line))
                sys.stdout.flush()
    if output.is_data:
        print_document([{"check": line.check, **asdict(line.remark)} for line in lines], output=output)
    bad = list(dict.fromkeys(line.check for line in lines if line.remark.grade is Grade.BAD))
    if bad:
        raise UnsafeToLead(
            f"a member could not lead here, or not safely: {', '.join(bad)}", fix="mend the lines that begin with bad"
        )
    if not output.is_data:
        note(summary(lines))


@contextmanager
def _interrupted() -> Iterator[None]:
    """Let SIGINT and SIGTERM interrupt the block, so that nothing stays. A shell starts a job in the background with
    SIGINT ignored, and Python then does not interrupt by itself."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def text_of(line: DoctorLine) -> str:
    """The line for people, and below it the meaning and the fix, where there are any."""
    remark = line.remark
    rows = ((remark.grade.value, line.check, remark.seen), ("", "means", remark.means), ("", "mend", remark.mend))
    return "".join(f"{grade:<6}{word:<{_WIDTH}}{text}\n" for grade, word, text in rows if text)


def summary(lines: Sequence[DoctorLine]) -> str:
    """How many lines of each grade, where none is bad."""
    count = Counter(line.remark.grade for line in lines)
    shown = ", ".join(f"{count[grade]} {grade.value}" for grade in Grade if count[grade])
    omitted = sum(is_not_made(line.remark) for line in lines)
    return f"no line is bad: {shown}" + (f"; {omitted} checks were not made" if omitted else "")
