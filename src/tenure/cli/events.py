"""`tenure events`: what all members of a scope report, fetched from the addresses that they announced.

Promise: events come in the order of their times; each member that does not answer is named once, with the way out.
With `--follow`, members that come later are asked, too, and a store that is away ends nothing: the known addresses are
asked on. Not promised: events from before the start of an agent, or older than its newest 2,000.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated, Any, Final

import typer

from tenure.cli.addresses import remember, remembered
from tenure.cli.completing import member_names
from tenure.cli.members import events_of_all
from tenure.cli.options import OutputOption, open_existing, takes_settings
from tenure.cli.output import Output, document_text, tabbed, warn
from tenure.clock import SystemClock
from tenure.coordination.candidates import Candidate
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import StoreUnavailable, UsageError
from tenure.events import event_from_data
from tenure.operate.event_rules import asked_after, in_order, new_events
from tenure.operate.scopes import known_records
from tenure.operate.snapshot import take_snapshot
from tenure.settings import Settings
from tenure.wording import on_one_line

_AGAIN_S: Final = 1.0
_COLUMNS: Final = ("at", "source", "event", "line")


@takes_settings("store", "scope")
def events(
    settings: Settings,
    output: OutputOption = Output.TABLE,
    member: Annotated[
        str | None,
        typer.Option("--member", metavar="MEMBER", autocompletion=member_names, help="Its events; by default all."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new events. Ctrl-C ends it.")] = False,
    last: Annotated[
        int | None, typer.Option("--last", "-n", min=1, help="The newest N events; by default all.")
    ] = None,
) -> None:
    """The events of all members, by time: each member with --http is asked for its newest 2,000.

    Example: tenure events --follow --last 20
    """
    clock = SystemClock()
    reader = _Reader(settings, member)
    with ExitStack() as closing:
        away = reader.look(closing)
        found = reader.read()
        shown = _Printer(output)
        shown.show(found if last is None else found[-last:])
        if away is not None and not (follow and reader.knows_members):
            raise away
        while follow:
            clock.sleep(_AGAIN_S)
            reader.look(closing)
            shown.show(reader.read())


class _Reader:
    """Asks the members of a scope for their new events. Used by one thread."""

    def __init__(self, settings: Settings, only: str | None) -> None:
        self._settings = settings
        self._url = settings.required("store")
        self._scope = Scope(settings.required("scope"))
        self._only = only
        self._store: CoordinationStore | None = None  # None: not opened yet
        self._addresses: dict[str, str] = {}
        self._last: dict[str, Mapping[str, Any]] = {}  # member -> the last event that was read
        self._warned: dict[str, str] = {}  # member, or "" for the store -> the warning that stands

    @property
    def knows_members(self) -> bool:
        """Whether there is a member to ask."""
        return bool(self._addresses)

    def look(self, closing: ExitStack) -> StoreUnavailable | None:
        """Learn the addresses of the members; return why the store does not answer. Raises UsageError: no member has
        the name that is asked for."""
        try:
            if self._store is None:
                store = closing.enter_context(open_existing(self._settings))
                known_records(store, self._scope)
                self._store = store
            members = take_snapshot(self._store, self._scope).members
        except StoreUnavailable as failed:
            self._addresses = self._addresses or self._wanted(remembered(self._url, self._scope))
            self._warn("", f"the store is away: {failed}; members are asked at the addresses that are known")
            return failed
        self._warned.pop("", None)
        remember(self._url, self._scope, members)
        self._check_name(members)
        before, self._addresses = self._addresses, self._wanted({one.member: one.http for one in members if one.http})
        for name in sorted(before.keys() - self._addresses.keys()):
            warn(f"member {name} is gone: its session is over, and it has no events any more")
        for one in members:
            if not one.http and self._only in (None, one.member):
                self._warn(one.member, _without_address(one))
        return None

    def read(self) -> list[dict[str, Any]]:
        """The events since the last call, by time."""
        found: list[tuple[str, Mapping[str, Any]]] = []
        asked = {name: (where, asked_after(self._last.get(name))) for name, where in self._addresses.items()}
        again = self._take(events_of_all(asked), found)
        if again:
            self._take(events_of_all({name: (self._addresses[name], 0) for name in again}), found)
        return in_order(found)

    def _take(
        self, answers: Mapping[str, list[dict[str, Any]] | str], found: list[tuple[str, Mapping[str, Any]]]
    ) -> list[str]:
        """Add the new events of the answers to `found`; return the members that began anew."""
        anew = []
        for name, answer in answers.items():
            if isinstance(answer, str):
                where = self._addresses[name]
                fix = "look whether it runs, and whether this host reaches the address"
                self._warn(name, f"member {name} does not answer at {where}: {answer}; {fix}")
                continue
            self._warned.pop(name, None)
            new = new_events(self._last.get(name), answer)
            if new is None:
                del self._last[name]
                anew.append(name)
                continue
            if new.missed:
                warn(f"{new.missed} events of member {name} are lost: it has dropped them between two questions")
            found += [(name, event) for event in new.events]
            if answer:
                self._last[name] = answer[-1]
        return anew

    def _wanted(self, addresses: Mapping[str, str]) -> dict[str, str]:
        return {name: where for name, where in addresses.items() if self._only in (None, name)}

    def _check_name(self, members: Sequence[Candidate]) -> None:
        names = [one.member for one in members]
        if self._only is not None and self._only not in names and self._only not in self._last:
            fix = f"live: {names}" if names else "it has no live member"
            raise UsageError(f"no live member of scope {self._scope!r} is named {self._only!r}", fix=fix)

    def _warn(self, what: str, line: str) -> None:
        if self._warned.get(what) != line:
            self._warned[what] = line
            warn(line)


def _without_address(member: Candidate) -> str:
    if member.in_process:
        return f"member {member.member} is a service (tenure.lead), which serves no events; see the log of the service"
    return f"member {member.member} serves no events; start it with --http HOST:PORT"


class _Printer:
    """Prints events as they come."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._begun = False

    def show(self, events: Sequence[dict[str, Any]]) -> None:
        """Print the events at once."""
        if self._output is Output.YAML:
            lines = [f"---\n{document_text(event, output=self._output)}" for event in events]
        elif self._output.is_data:
            lines = [f"{json.dumps(event)}\n" for event in events]
        elif sys.stdout.isatty():
            lines = [f"{_clock_time(event['at'])} {event['source']}: {line_of(event)}\n" for event in events]
        else:
            heads, *rest = tabbed([{**event, "line": line_of(event)} for event in events], columns=_COLUMNS)
            lines = [f"{line}\n" for line in (rest if self._begun else (heads, *rest))]
        self._begun = True
        sys.stdout.writelines(lines)
        sys.stdout.flush()


def _clock_time(at: object) -> str:
    return f"{str(at)[:19].replace('T', ' ')}Z"


def line_of(event: Mapping[str, Any]) -> str:
    """An event in one line for people; of a kind that this version does not know, its fields."""
    fields = {name: value for name, value in event.items() if name not in ("at", "source", "number")}
    try:
        line = event_from_data(fields).line()
    except (ValueError, TypeError, KeyError):  # of a newer or an older version
        line = ""
    if line:
        return on_one_line(line)
    told = ", ".join(f"{name} {value}" for name, value in fields.items() if name not in ("event", "scope"))
    return on_one_line(f"{event['event']}: {told}")
