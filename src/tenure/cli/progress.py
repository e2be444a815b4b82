"""How far a command has come: a bar at a terminal, a line each ten seconds elsewhere.

Promise: stdout gets nothing of it. A command that ends sooner prints no line, and the bar is gone at its end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tenure.cli.output import say
from tenure.clock import Clock
from tenure.progress import Paced, Progress

LINE_S: Final = 10.0


@contextmanager
def progress(clock: Clock) -> Iterator[Progress]:
    """What shows the reports of the block."""
    if not sys.stderr.isatty():
        yield Paced(lambda step: say(step.line), every_s=LINE_S, clock=clock)
        return
    from rich.console import Console

    from tenure.cli.bar import bar, shown_in  # costs time, and most commands are short

    shown = bar(Console(stderr=True))
    try:
        yield shown_in(shown)
    finally:
        if shown.tasks:  # else it was never started, and writes nothing
            shown.stop()
