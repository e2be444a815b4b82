"""A look at the store, once, or again and again until Ctrl-C (`--watch`).

Promise: at a terminal the picture is drawn anew in its place, at each change of the scope and at the interval. Into a
pipe, or with `-o json`, each change is one line of JSON (`-o yaml`: one document), and the first line is the present
state. A store that is away does not end a watch: the watch says so once and tries again at the interval. Wrong names
and missing rights end it. Not promised: each change in between; of changes that come together, the newest is shown.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Final, Protocol

import typer

from tenure.cli.output import Output, document_text, note, print_document, warn
from tenure.clock import Clock, SystemClock
from tenure.coordination.records import Revision, Scope
from tenure.coordination.store import Changes, CoordinationStore
from tenure.errors import AccessDenied, StoreUnavailable

_EVERY_S: Final = 2.0
_APART_S: Final = 0.2
"""How far apart two looks are at least."""

WatchOption = Annotated[
    bool, typer.Option("--watch", "-W", help=f"Look again at each change, and every {_EVERY_S:g} s. Ctrl-C ends it.")
]
EveryOption = Annotated[
    float | None, typer.Option("--every", "-w", metavar="SECONDS", min=_APART_S, help="--watch with this interval.")
]


def interval(watch: bool, every: float | None) -> timedelta | None:
    """The interval of a watch; None: one look."""
    if every is None and not watch:
        return None
    return timedelta(seconds=_EVERY_S if every is None else every)


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one look."""

    document: Any
    tables: Callable[[], None]
    """Prints the same for people."""
    warnings: Sequence[str] = ()
    """The warnings beside the document; the tables print their own."""
    state: Any = None
    """What has to differ for the look to be a change; None: the document."""

    def show(self, *, output: Output) -> None:
        """Print it."""
        if not output.is_data:
            self.tables()
            return
        print_document(self.document, output=output)
        for line in self.warnings:
            warn(line)


def away_look(failed: StoreUnavailable) -> Look:
    """The look of a watch while the store is away."""
    return Look({"store_away": str(failed)}, lambda: note(f"the store is away: {failed}"))


@dataclass(frozen=True, slots=True)
class Viewed:
    """The subject of a look. `scope` None: the store as a whole, which is asked at the interval alone."""

    opening: Callable[[], AbstractContextManager[CoordinationStore]]
    """Opens the store. Raises StoreUnavailable, UsageError."""
    scope: Scope | None
    look: Callable[[CoordinationStore], Look]
    away: Callable[[StoreUnavailable], Look] = away_look


def look_at(viewed: Viewed, *, output: Output, every: timedelta | None) -> None:
    """Print one look; with `every`, go on until the process is interrupted. Raises what opening and looking raise, but
    for a watch no StoreUnavailable."""
    if every is None:
        with viewed.opening() as store:
            found = viewed.look(store)
        found.show(output=output)
        return
    with _screen(output) as screen:
        _go_on(viewed, screen, every=every, clock=SystemClock())


class WatchScreen(Protocol):
    """Where a watch shows its looks."""

    def show(self, look: Look) -> None: ...


def _go_on(viewed: Viewed, screen: WatchScreen, *, every: timedelta, clock: Clock) -> None:
    while True:
        try:
            with viewed.opening() as store:
                for _ in _changes(store, viewed.scope, every=every, clock=clock):
                    screen.show(viewed.look(store))
        except StoreUnavailable as failed:
            if isinstance(failed, AccessDenied):
                raise
            screen.show(viewed.away(failed))
            clock.sleep(every.total_seconds())


def _changes(store: CoordinationStore, scope: Scope | None, *, every: timedelta, clock: Clock) -> Iterator[None]:
    """One item at once, then one at each change of the scope and at the interval. Raises StoreUnavailable."""
    with ExitStack() as closing:
        changes: Changes | None = None
        if scope is not None:
            changes = closing.enter_context(store.watch(scope, after=Revision(0)))
            changes.wait(timeout=timedelta(seconds=_APART_S))  # what changes from here on is past this revision
        while True:
            yield
            if changes is None:
                clock.sleep(every.total_seconds())
            elif changes.wait(timeout=every) is not None:
                clock.sleep(_APART_S)  # what belongs together comes together


@contextmanager
def _screen(output: Output) -> Iterator[WatchScreen]:
    if output.is_data or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield ChangeLines(output)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(), auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        yield _RedrawnScreen(live)


class ChangeLines:
    """One line of JSON, or one document of YAML, for each change."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._before: Any = None  # None: nothing was printed yet
        self._warned: set[str] = set()

    def show(self, look: Look) -> None:
        """Print a look that is a change."""
        state = "away" if "store_away" in look.document else [look.state or look.document]
        if state == self._before:
            return
        self._before = state
        if self._output is Output.YAML:
            sys.stdout.write(f"---\n{document_text(look.document, output=self._output)}")
        else:
            sys.stdout.write(f"{json.dumps(look.document)}\n")
        sys.stdout.flush()
        for line in look.warnings:
            if line not in self._warned:
                warn(line)
        self._warned = set(look.warnings)


class _Paper(io.StringIO):
    """A terminal on which the tables are drawn, to be shown as a whole."""

    def isatty(self) -> bool:
        return True


class _RedrawnScreen:
    """A picture that the next picture replaces."""

    def __init__(self, live: Any) -> None:
        self._live = live

    def show(self, look: Look) -> None:
        from rich.text import Text

        paper = _Paper()
        with redirect_stdout(paper), redirect_stderr(paper):
            note(f"{SystemClock().now():%H:%M:%S} UTC; Ctrl-C ends the watch")
            look.tables()
        self._live.update(Text.from_ansi(paper.getvalue().rstrip("\n")), refresh=True)
