"""What an event is, and how events reach their subscribers. `events.py` has the kinds.

Promise: an event is emitted after the fact that it names. The error of a subscriber is a bug of the subscriber, and
reaches the emitter's thread. No text of an event has a password. Events decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal, dataclass_transform

from tenure.metric import Metric
from tenure.wording import masked


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Event:
    """Root of all events, `scope` is the pipeline's. A kind of event is a frozen dataclass that carries its line for
    people: text with the names of fields in braces, or `line`. Without either it has no line."""

    scope: str

    kinds: ClassVar[dict[str, type[Event]]] = {}
    """Name -> the kind of event."""
    _line: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]] = ()
    level: ClassVar[Literal["info", "warning", "error"]] = "info"
    """`warning`: something does not work, and the product goes on by itself. `error`: somebody must act."""
    waits: ClassVar[bool] = False
    """The line says for what a member waits: at a terminal, the next line replaces it."""

    def __init_subclass__(cls, line: str = "") -> None:
        dataclass(frozen=True)(cls)
        cls._line = line
        Event.kinds[cls.__name__] = cls

    def line(self) -> str:
        return self._line.format_map(vars(self))

    def __post_init__(self) -> None:
        for one in fields(self):
            text = getattr(self, one.name)
            if isinstance(text, str) and (shown := masked(text)) != text:
                object.__setattr__(self, one.name, shown)  # as the constructor of a frozen dataclass does


def event_to_data(event: Event) -> dict[str, Any]:
    """The event as data: its kind under `event`, and its fields."""
    return {"event": type(event).__name__, **asdict(event)}


def event_from_data(data: Mapping[str, Any]) -> Event:
    """The event that `event_to_data` described. Raises ValueError."""
    values = dict(data)
    kind = Event.kinds.get(name := values.pop("event", ""))
    if kind is None:
        raise ValueError(f"no event is called {name!r}")
    return kind(**values)


Subscriber = Callable[[Event], None]


class Events:
    """Hands each event to every subscriber, in the emitter's thread. The events of a thread stay in order."""

    nobody: ClassVar[Events]

    def __init__(self, *subscribers: Subscriber) -> None:
        self._subscribers = subscribers

    def emit(self, event: Event) -> None:
        for subscriber in self._subscribers:
            subscriber(event)


Events.nobody = Events()


class Once:
    """Emits the events of a state that is looked at again and again: each event once, for as long as it stands. Used by
    one thread."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._last: Sequence[Event] = ()

    def look(self, *now: Event) -> None:
        """Emit those events of the present state that the last look did not have."""
        last, self._last = self._last, now
        for event in now:
            if event not in last:
                self._events.emit(event)
