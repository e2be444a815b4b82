"""The live picture of the demo: how much is in the table, who leads, which epoch, which batch."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from demo.data import Feeder
    from demo.run import Demo


class View:
    """Draws while the demo waits. On a pipe it prints only what happens."""

    def __init__(self, console: Console, *, demo: Demo, feeder: Feeder, total: int) -> None:
        self._console = console
        self._demo = demo
        self._feeder = feeder
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
        )
        self._fed = self._progress.add_task("released", total=total)
        self._out = self._progress.add_task("in the table", total=total)
        self._live = Live(console=console, refresh_per_second=4)

    def __enter__(self) -> View:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self.draw()
            self._live.stop()

    def tell(self, line: str) -> None:
        """Print what happened, above the picture."""
        self._console.print(f"[bold]*[/bold] {line}")

    def draw(self) -> None:
        """Draw the picture as it is now."""
        if not self._console.is_terminal:
            return
        self._progress.update(self._fed, completed=self._feeder.released)
        self._progress.update(self._out, completed=self._demo.output.count("flights"))
        self._live.update(Group(self._progress, self._members()))

    def _members(self) -> Table:
        table = Table("member", "role", "epoch", "batch", box=None)
        leader = self._demo.leader()
        for member in self._demo.members:
            events = member.events()
            epochs = [event["epoch"] for event in events if event["event"] == "TermWon"]
            batches = [event["batch"] for event in events if event["event"] == "BatchCommitted"]
            ready = any(event["event"] == "MemberReady" for event in events)
            role = "leader" if member is leader else "standby" if ready else "starting"
            role = role if member.running else "dead"
            table.add_row(member.name, role, str(epochs[-1]) if epochs else "", str(batches[-1]) if batches else "")
        return table
