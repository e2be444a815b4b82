"""What a doctor looks at: the settings, and what its checks have opened on the way.

Promise: `Case` closes all that it has opened, also after Ctrl-C. A check that cannot be made raises `NotMade`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from tenure.agent.child import Start
from tenure.agent.driver_process import DriverProcess
from tenure.clock import Clock
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.events import Event
from tenure.settings import Settings

Thing = TypeVar("Thing")


class NotMade(Exception):
    """A check was not made. The text says why."""


@dataclass
class Case:
    """Used by one thread. `pipeline_file` None: `--for` is not given. `start_driver`: as in `assemble`."""

    settings: Settings
    pipeline_file: str | None
    clock: Clock
    start_driver: Start
    open: ExitStack = field(default_factory=ExitStack)
    found_store: CoordinationStore | None = None
    """None: the store was not reached."""
    found_driver: DriverProcess | None = None
    """None: no pipeline is loaded."""
    pipeline: str = ""
    """The name of the loaded pipeline; empty: none is loaded."""
    events: list[Event] = field(default_factory=list)
    """Those of the driver. Its thread appends."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.open.__exit__(kind, error, trace)

    @property
    def store(self) -> CoordinationStore:
        """Raises NotMade."""
        return _there(self.found_store, "the store was not reached")

    @property
    def driver(self) -> DriverProcess:
        """Raises NotMade."""
        return _there(self.found_driver, "no pipeline is loaded: give --for PIPELINE.py")

    @property
    def scope(self) -> Scope:
        """The scope of the settings, else the name of the pipeline. Raises NotMade, UsageError."""
        name = self.settings.scope or self.pipeline
        return Scope(_there(name or None, "no --scope is given, and no --for PIPELINE.py that names it"))

    @property
    def storage_url(self) -> str:
        """Raises NotMade."""
        return _there(self.settings.storage, "no --storage is given")

    def closing(self, close: Callable[[], object]) -> None:
        """Call this at the end, the last first."""
        self.open.callback(close)


def _there(thing: Thing | None, why: str) -> Thing:
    if thing is None:
        raise NotMade(why)
    return thing
