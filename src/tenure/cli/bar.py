"""A bar at a terminal: how far a command has come. Imported only where there is a terminal, as it costs time."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from tenure.progress import Progress, Step


def shown_in(bar: Bar) -> Progress:
    """Shows each report in the same bar, which starts with the first."""
    tasks: list[TaskID] = []

    def show(step: Step) -> None:
        if not tasks:
            bar.start()
            tasks.append(bar.add_task("", total=None))
        what, _, counts = step.line.rpartition(": ")
        bar.update(tasks[0], description=what, counts=counts, total=step.of, completed=step.done, unit=step.unit)

    return show


def bar(console: Console) -> Bar:
    """A bar for one work."""
    what = TextColumn("{task.description}")
    columns = (SpinnerColumn(), what, BarColumn(), _Counts(), _Rate(), TimeRemainingColumn())
    return Bar(*columns, console=console, transient=True)


class _Counts(ProgressColumn):
    """120 of 1,240 files."""

    def render(self, task: Task) -> Text:
        return Text(task.fields.get("counts", ""))


class _Rate(ProgressColumn):
    """Files a second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None or task.fields.get("unit") == "s" else f"{task.speed:,.0f}/s")
