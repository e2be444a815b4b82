"""Pure: whether a pipeline file may go on with the declaration and the checkpoints of a scope. No I/O, no clock.

Promise: a file that would read a source again under another name, leave a stream behind, run a query on the state of
another query, or read a source from the position of another, is refused until an operator allows that by name. The new
record includes the allowed changes, so nobody allows them twice. Not promised: that an allowed change gives the right
rows.

A query is known when it is recorded, or has a checkpoint, unless it was dropped. A query without a checkpoint has
planned nothing, and has no state to lose. A changed query that has planned nothing since (Spark may have refused the
state) still has the state of before, and may go back to its earlier shape without a flag.

Spark knows the sources of a query by their position, or by their names where the query names them; so do these rules.
Two sources in each other's place, another path or topic, another format: each is a difference. Not promised: that a
source has the content that it had.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tenure.checkpoints.source import FILES, Source
from tenure.declarations.declaration import Declaration, DeclaredStream, Earlier, Shape

_MOVED: Final = "that goes on only if its files only moved, with the same names and times"


@dataclass(frozen=True, slots=True)
class Differences:
    """How the sources of a query differ from those of its checkpoint."""

    told: tuple[str, ...] = ()
    """A sentence a source; empty: they do not differ."""
    may_be_allowed: bool = True
    """Whether Spark would go on with these sources at all."""

    def __bool__(self) -> bool:
        return bool(self.told)


def differences(query: str, was: Sequence[Source], now: Sequence[Source]) -> Differences:
    """Compare the sources of a declared query with the sources of its checkpoint. Empty `was`: an older version has not
    recorded them, and any are taken."""
    if not was or not now:
        return Differences()
    if all(source.is_named for source in (*was, *now)):
        known = {source.folder: source for source in was}
        pairs = [(known[source.folder], source) for source in now if source.folder in known]
    elif len(was) != len(now):
        return Differences((_count(query, was, now),), may_be_allowed=False)
    else:
        pairs = list(zip(was, now, strict=True))
    places = dict(enumerate(was))
    return Differences(
        tuple(_sentence(query, place, one, other, places) for place, (one, other) in enumerate(pairs) if one != other)
    )


def _sentence(query: str, place: int, was: Source, now: Source, known: Mapping[int, Source]) -> str:
    name = now.folder if now.is_named else str(place)
    if was.reads == now.reads:
        return (
            f"source {name} of query {query!r}, [{now.told}], had the folder {was.folder} of the checkpoint, and has "
            f"the folder {now.folder}"
        )
    hint = ""
    if elsewhere := [other for other, one in known.items() if one.reads == now.reads]:
        hint = f", which was source {elsewhere[0]}"
    elif was.kind == now.kind == FILES:
        hint = f" ({_MOVED})"
    return f"source {name} of query {query!r} was [{was.told}], and would go on from there with [{now.told}]{hint}"


def _count(query: str, was: Sequence[Source], now: Sequence[Source]) -> str:
    return (
        f"query {query!r} had {len(was)} sources [{_list(was)}], and has {len(now)} [{_list(now)}]: Spark goes on only "
        "with as many; a query with others needs a new name"
    )


def _list(sources: Sequence[Source]) -> str:
    return "; ".join(source.told for source in sources)


@dataclass(frozen=True, slots=True)
class Allowed:
    """The streams that an operator allows to be different."""

    new: frozenset[str] = frozenset()
    """They begin at the start of their sources."""
    dropped: frozenset[str] = frozenset()
    """The pipeline does not have them any more."""
    changed: frozenset[str] = frozenset()
    """They go on with their state, though their shape is different."""
    sources: frozenset[str] = frozenset()
    """They go on from their positions, though their sources are different."""

    def flags(self) -> tuple[str, ...]:
        """The flags of `tenure run` that allow this."""
        return (
            *(f"--drop-stream {name}" for name in sorted(self.dropped)),
            *(f"--new-stream {name}" for name in sorted(self.new)),
            *(f"--changed-query {name}" for name in sorted(self.changed)),
            *(f"--changed-source {name}" for name in sorted(self.sources)),
        )

    def without(self, other: Allowed) -> Allowed:
        """The permissions that `other` does not have."""
        return Allowed(
            self.new - other.new,
            self.dropped - other.dropped,
            self.changed - other.changed,
            self.sources - other.sources,
        )


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a file may run, and the record of that run."""

    refused: tuple[str, ...]
    """Why the file may not run, a sentence each; empty: it may run."""
    wanted: Allowed
    """The missing permissions."""
    needless: Allowed
    """The permissions that nothing needs."""
    record: Declaration
    """The declaration to record when the file runs."""
    news: tuple[str, ...]
    """The differences from the recorded declaration, for people; empty: there are none, or nothing is recorded."""


def changed_queries(recorded: Declaration | None) -> frozenset[str]:
    """The queries that were changed; their newest checkpoints show whether they have run since."""
    streams = {} if recorded is None else recorded.streams
    return frozenset(name for name, one in streams.items() if one.earlier is not None)


def judge(
    recorded: Declaration | None,
    declared: Declaration,
    *,
    checkpointed: Collection[str],
    allowed: Allowed,
    newest: Mapping[str, int],
    epoch: int,
) -> Judgement:
    """Judge the declaration of a file. `recorded` None: nothing is recorded. `checkpointed`: the queries that have a
    checkpoint. `newest`: the epochs of the newest checkpoints of `changed_queries`. `epoch`: that of the new record."""
    before = recorded or replace(declared, streams={})
    known = {name for name in (*before.streams, *checkpointed) if name not in before.streams or before.declares(name)}
    gone = {name for name in known if name in checkpointed and name not in declared.streams}
    fresh = {name for name in declared.streams if name not in checkpointed and name not in known} if gone else set()
    resumed = {name: one for name, one in before.streams.items() if name in checkpointed and name in declared.streams}
    compared = _compare(resumed, declared.streams, _unrun(resumed, newest))
    changed = {name: one.shapes for name, one in compared.items() if one.other_state}
    moved = {name: one.sources for name, one in compared.items() if one.sources}
    needed = Allowed(
        frozenset(fresh),
        frozenset(gone),
        frozenset(changed),
        frozenset(name for name, found in moved.items() if found.may_be_allowed),
    )
    wanted = needed.without(allowed)
    refused_sources = {name for name, found in moved.items() if name in wanted.sources or not found.may_be_allowed}
    return Judgement(
        refused=(
            *_lost(sorted(wanted.dropped), sorted(wanted.new)),
            *(_misfit(name, *changed[name]) for name in sorted(wanted.changed)),
            *(sentence for name in sorted(refused_sources) for sentence in moved[name].told),
            *_other_words(before, declared, wanted),
        ),
        wanted=wanted,
        needless=allowed.without(needed),
        record=replace(
            declared,
            streams={**_left(before, declared, checkpointed), **_declared(declared, _earlier(compared, epoch))},
        ),
        news=_news(before, declared, checkpointed, compared) if recorded is not None else (),
    )


@dataclass(frozen=True, slots=True)
class _Compared:
    """A declared query beside the recorded query, and beside the query that its state and offsets are of."""

    recorded: DeclaredStream
    declared: DeclaredStream
    of: Earlier
    """The query of state and offsets: the recorded query, or its earlier form if nothing was planned since."""
    other_state: bool
    """The shape is neither that of the recorded query nor that of the state."""
    sources: Differences
    """From the sources of the offsets; empty: they are the same, or were allowed before."""
    is_recorded: bool
    """It does not differ from the recorded query."""

    @property
    def shapes(self) -> tuple[Shape | None, Shape | None]:
        return self.recorded.shape, self.declared.shape

    @property
    def is_back(self) -> bool:
        """The query is again as it was before a change after which it has planned nothing."""
        return not self.is_recorded and not self.other_state and not self.sources and self._is_of_state

    @property
    def _is_of_state(self) -> bool:
        of, now = self.of, self.declared
        return of.shape == now.shape and not differences("", of.sources, now.sources)


def _compare(
    recorded: Mapping[str, DeclaredStream], declared: Mapping[str, DeclaredStream], unrun: Mapping[str, Earlier]
) -> dict[str, _Compared]:
    compared = {}
    for name, one in recorded.items():
        now, of = declared[name], unrun.get(name) or Earlier(one.shape, 0, one.sources)
        of = replace(of, sources=of.sources or one.sources)
        since_recorded = differences(name, one.sources, now.sources)
        compared[name] = _Compared(
            one,
            now,
            of,
            other_state=now.shape not in (one.shape, of.shape),
            sources=differences(name, of.sources, now.sources) if since_recorded else Differences(),
            is_recorded=one.shape == now.shape and not since_recorded,
        )
    return compared


def _earlier(compared: Mapping[str, _Compared], epoch: int) -> dict[str, Earlier | None]:
    """What the state and the offsets of each query are of, where that is not the declared query."""
    return {
        name: one.recorded.earlier if one.is_recorded else None if one.is_back else replace(one.of, epoch=epoch)
        for name, one in compared.items()
    }


def _unrun(streams: Mapping[str, DeclaredStream], newest: Mapping[str, int]) -> dict[str, Earlier]:
    """The earlier shapes of the queries that have planned nothing since they were changed."""
    earlier = {name: one.earlier for name, one in streams.items() if one.earlier is not None and name in newest}
    return {name: one for name, one in earlier.items() if newest[name] < one.epoch}


def _declared(declared: Declaration, earlier: Mapping[str, Earlier | None]) -> dict[str, DeclaredStream]:
    """The streams of a file, with the earlier shapes of their queries."""
    return {name: replace(one, earlier=earlier.get(name)) for name, one in declared.streams.items()}


def _left(before: Declaration, declared: Declaration, checkpointed: Collection[str]) -> dict[str, DeclaredStream]:
    """The streams that have checkpoints, and are declared no more."""
    gone = sorted(name for name in checkpointed if name not in declared.streams)
    return {name: replace(before.streams.get(name, DeclaredStream(None)), dropped=True) for name in gone}


def _lost(gone: Sequence[str], fresh: Sequence[str]) -> list[str]:
    told = [f"stream {name!r} has checkpoints and is declared no more" for name in gone]
    return told + [f"stream {name!r} has none, and would begin at the start of its sources" for name in fresh]


def _misfit(name: str, was: Shape | None, now: Shape | None) -> str:
    if was is not None and now is not None and was.told == now.told:
        return f"query {name!r} was run as {_told(was)}, and is declared otherwise in what these words leave out"
    return f"query {name!r} was run as {_told(was)}, and would go on with that state as {_told(now)}"


def _other_words(before: Declaration, declared: Declaration, wanted: Allowed) -> list[str]:
    same = not wanted.changed or before.spark == declared.spark
    return [] if same else [f"Spark is {declared.spark}, and was {before.spark}"]


def _told(shape: Shape | None) -> str:
    return "a query without state" if shape is None else f"[{shape.told}]"


def _news(
    before: Declaration,
    declared: Declaration,
    checkpointed: Collection[str],
    compared: Mapping[str, _Compared],
) -> tuple[str, ...]:
    came = [name for name in declared.streams if not before.declares(name)]
    went = [name for name in before.streams if before.declares(name) and name not in declared.streams]
    return (
        *((f"the file is {declared.file}, and was {before.file}",) if declared.file != before.file else ()),
        *((f"Spark is {declared.spark}, and was {before.spark}",) if declared.spark != before.spark else ()),
        *(f"stream {name!r} {'goes on where it was' if name in checkpointed else 'begins'}" for name in sorted(came)),
        *(f"stream {name!r} is declared no more" for name in sorted(went)),
        *(
            f"query {name!r} goes on with the state of another one"
            for name in sorted(compared)
            if compared[name].other_state
        ),
        *(f"query {name!r} goes on with other sources" for name in sorted(compared) if compared[name].sources),
        *(
            f"query {name!r} goes on as it was: it has run nothing since it was changed"
            for name in sorted(compared)
            if compared[name].is_back
        ),
    )
