"""What a run is going to do: its queries, its settings, and its ends, one after the other. The seed decides all of it.

Promise: the same seed and the same filters make the same plan. Not promised: the same timing.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.soak.kinds import KINDS, KINDS_ASKED_FOR

SINKS: Final = ("delta", "ledger")
"""What is drawn, where no sink is asked for."""

POSTGRES: Final = "postgres"
FILES: Final = "files"
ICEBERG: Final = "iceberg"
KAFKA: Final = "kafka"
MYSQL: Final = "mysql"
ASKED_FOR: Final = (POSTGRES, FILES, ICEBERG, KAFKA, MYSQL)
"""Sinks that have to be asked for: servers, folders of plain files, tables in a catalog of SQLite, a broker."""

TRANSACTIONAL: Final = (POSTGRES, KAFKA, MYSQL)
"""The sinks whose servers tell of the transactions of batches."""

IN_TRANSACTION: Final = "pause in transaction"
"""The leader is stopped while the target is in the transaction of its batch. Drawn with such sinks only."""

HABITS: Final = ("left", "quiet", "shown", "delete", "archive")
"""What becomes of inputs: they stay; are moved away by hand when the pipeline is quiet or has ended; are moved away by
hand as soon as the output shows them; `cleanSource`."""

BY_HAND: Final = ("quiet", "shown")

SINK_AWAY: Final = "sink-away"
"""A habit of targets, that has to be asked for: again and again, the query's target refuses everything for seconds, and
sometimes what it has taken, too. The inputs stay."""

AWAY_SINKS: Final = ("ledger", POSTGRES, ICEBERG, KAFKA, MYSQL)
"""The sinks whose targets can be made to refuse."""

STATES: Final = ("rocksdb", "hdfs")

END_KINDS: Final[Mapping[str, int]] = {
    "kill": 30,
    "kill standby": 4,
    "kill both": 4,
    "pause": 20,
    "pause two": 5,
    "term": 7,
    "term both": 3,
    "idle": 5,
    "quiet": 9,
    "night": 4,
    "restart": 4,
    "switchover": 3,
    "failover": 4,
}
"""Kind of end -> how often. `kill`, `pause` (SIGSTOP, SIGCONT after another leads), `term`: of the leader; `pause two`:
the successor is stopped, too, before the first one is woken; `idle`: a member that runs `--until-idle`; `quiet`: the
leader is killed or ended when everything is in the sinks; `night`: all members end then, by idleness or otherwise, and
others are started; `restart`, `switchover`, `failover`: what operators ask for."""

MOMENTS: Final[Mapping[str, tuple[int, int]]] = {
    "now": (0, 2500),
    "grant": (0, 900),
    "seeded": (0, 250),
    "started": (0, 600),
    "batch": (0, 500),
    "planned": (0, 80),
    "in sink": (0, 80),
}
"""After what an end strikes -> the least and the most milliseconds after it."""

PARTS: Final[Mapping[str, int]] = {"driver": 12, "agent": 7, "host": 12, "jvm": 3}
"""What of a member is struck (`host`: agent and driver, with its JVM) -> how often."""

QUERIES: Final = 5
"""How many queries a run has."""


@dataclass(frozen=True, slots=True)
class Query:
    """One stream of the pipeline."""

    kind: str
    sink: str
    habit: str

    @property
    def name(self) -> str:
        return f"{self.kind}_{self.sink}_{self.habit}".replace("-", "_")


CATALOG: Final = "soak"
"""The catalog of the Iceberg tables, and their namespace in it."""

TARGET: Final = "out"
"""Stands for a source in the name of a topic that a query writes to."""


def topic_of(folder: Path, query: str, source: str) -> str:
    """The topic of a source of a query, in the run of a folder."""
    return f"{folder.name}.{query}.{source}"


@dataclass(frozen=True, slots=True)
class Moment:
    """`delay_ms` after something that happened to a query (its position in the pipeline)."""

    after: str = "now"
    delay_ms: int = 0
    query: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """One end. `at`: when it strikes. `wake`: of what is stopped, when it is woken, counted from the moment at which
    another one led. `able`: whether there has to be a standby that can take over. `how`: of a quiet end, by which
    signal, or by idleness. `again_ms`: after how long what ended is started again."""

    kind: str
    part: str = "host"
    at: Moment = field(default_factory=Moment)
    wake: Moment = field(default_factory=Moment)
    able: bool = False
    how: str = "kill"
    again_ms: int = 0
    until_idle: bool = False
    """Whether what is started again shall end by idleness."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    seed: int
    queries: tuple[Query, ...]
    state: str = "rocksdb"
    cores: int = 2
    warm: bool = False
    lenient: bool = False
    """Whether Spark passes over files that go while it reads. By itself it looks once whether a planned file is there,
    takes one that is not for an empty one, and fails if one goes after that."""
    ends: tuple[End, ...] = ()


@dataclass(frozen=True, slots=True)
class Filter:
    """What may be drawn; empty: everything."""

    kinds: Collection[str] = ()
    sinks: Collection[str] = ()
    habits: Collection[str] = ()
    end_kinds: Collection[str] = ()
    states: Collection[str] = ()


def make_plan(seed: int, *, ends: int, only: Filter) -> Plan:
    """The run of a seed."""
    chance = random.Random(seed)
    queries = _queries(chance, only)
    state = chance.choice(_of(STATES, only.states))
    cores = chance.choice((1, 2, 2))
    warm, lenient = chance.random() < 0.2, chance.random() < 0.3
    kinds = {**END_KINDS, **({IN_TRANSACTION: 30} if set(TRANSACTIONAL) & set(only.sinks) else {})}
    weights = {kind: weight for kind, weight in kinds.items() if not only.end_kinds or kind in only.end_kinds}
    return Plan(seed, queries, state, cores, warm, lenient, tuple(_end(chance, weights, queries) for _ in range(ends)))


def _of(all_of: Sequence[str], chosen: Collection[str]) -> list[str]:
    return [one for one in all_of if not chosen or one in chosen]


def _queries(chance: random.Random, only: Filter) -> tuple[Query, ...]:
    """Each habit, and as many kinds as there can be, in each run; no two queries alike."""
    kinds = [kind for kind in KINDS if kind in (only.kinds or set(KINDS) - set(KINDS_ASKED_FOR))]
    habits = _of((*HABITS, SINK_AWAY) if only.habits else HABITS, only.habits)
    sinks = _of((*SINKS, *ASKED_FOR) if only.sinks else SINKS, only.sinks)
    dealt_kinds, dealt_habits = _dealt(chance, kinds), _dealt(chance, habits)
    found = [
        Query(dealt_kinds[i], _sink(dealt_kinds[i], chance.choice(sinks), habit=dealt_habits[i]), dealt_habits[i])
        for i in range(min(QUERIES, len(dealt_kinds)))
    ]
    return tuple(dict.fromkeys(found))


def _sink(kind: str, drawn: str, *, habit: str) -> str:
    """The sink that was drawn, or another one where it does not take the mode of this kind, or cannot refuse."""
    other = "ledger" if habit == SINK_AWAY else "delta"
    unfit = habit == SINK_AWAY and drawn not in AWAY_SINKS
    mode = KINDS[kind].mode
    refused = (drawn in TRANSACTIONAL and mode == "complete") or (drawn == FILES and mode != "append")
    return other if unfit or refused else drawn


def _dealt(chance: random.Random, values: Sequence[str]) -> list[str]:
    """Each value once in random order, then again, until there are enough."""
    dealt: list[str] = []
    while len(dealt) < QUERIES:
        dealt += chance.sample(values, len(values))
    return dealt[:QUERIES]


def _end(chance: random.Random, weights: Mapping[str, int], queries: Sequence[Query]) -> End:
    def moment(*, among: Sequence[str] = tuple(MOMENTS)) -> Moment:
        after = chance.choice(among)
        return Moment(after, chance.randint(*MOMENTS[after]), chance.randrange(len(queries)))

    return End(
        kind=chance.choices(list(weights), list(weights.values()))[0],
        part=chance.choices(list(PARTS), list(PARTS.values()))[0],
        at=moment(),
        wake=moment(among=("grant", "seeded", "started", "batch", "planned", "in sink")),
        able=chance.random() < 0.7,
        how=chance.choice(("kill", "kill", "term", "idle")),
        again_ms=chance.choice((0, 0, 500, 2000)),
        until_idle=chance.random() < 0.1,
    )
