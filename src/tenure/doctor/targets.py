"""What a driver asks for a doctor before anything is planned: whether each target takes batches; and the event of the
executors, which `driver/executors.py` asks.

Promise: nothing is written. Each query has one event, also where another target does not answer. A target that cannot
be asked (a function of the user) has no event.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenure.errors import TenureError
from tenure.events import Event
from tenure.pipelines.pipeline import Stream
from tenure.scope_context import ScopeContext
from tenure.sinks.sink import Answers, Located, Sink
from tenure.storage.reach import reach


class TargetAsked(Event):
    """A doctor has asked the target of a query. `why`: the reason why the target does not answer; empty: it answers."""

    query: str
    why: str

    def line(self) -> str:
        return f"the target of query {self.query} {f'does not answer: {self.why}' if self.why else 'answers'}"


class ExecutorsAsked(Event):
    """A doctor has run tasks on the executors. `seen`: their hosts and packages; `why`: the fault; empty: there is
    none."""

    seen: str
    why: str

    def line(self) -> str:
        return f"the executors do not serve: {self.why}" if self.why else self.seen


def ask_targets(streams: Sequence[Stream], context: ScopeContext) -> None:
    """Emit `TargetAsked` for each stream whose target can be asked."""
    for stream in streams:
        why = _why_not(stream.sink)
        if why is not None:
            context.events.emit(TargetAsked(context.scope, query=stream.name, why=why))


def _why_not(sink: Sink) -> str | None:
    """Why the target does not answer; empty: it answers; None: it cannot be asked."""
    try:
        if isinstance(sink, Answers):
            sink.ask()
        elif isinstance(sink, Located):
            reach(sink.location, what="table").entries()
        else:
            return None
    except TenureError as error:
        return str(error)
    return ""
