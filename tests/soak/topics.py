"""The topics that a run writes to, on a broker of their own, and their reader: a plain consumer of what is committed.

Promise: a record of `update` mode that was sent again is surplus, though a later one has its key. While the broker is
away, `rows` stays as it was. A transaction is open where a topic ends later for a reader of all records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.crash.truth import Row
from tests.kafka.sink_place import read
from tests.kit.servers import KafkaServer
from tests.soak.kinds import KINDS, Kind
from tests.soak.plan import KAFKA, TARGET, Query, topic_of
from tests.soak.targets import ServerAway

_PARTITIONS: Final = 3
_ANSWER_S: Final = 5.0

Ends = dict[tuple[str, int], int]


class Topics:
    """The topics of one run. One thread reads; another one lets the broker leave and come back."""

    def __init__(self, server: KafkaServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._queries: list[Query] = []
        self._admin: AdminClient | None = None  # None: not used yet
        self._read: dict[str, tuple[Ends, list[Row]]] = {}  # query -> the ends that were read to, and the rows
        self._away = ServerAway(server)

    def make(self, queries: Sequence[Query]) -> None:
        """Make a topic for each query that needs one."""
        self._queries = [query for query in queries if query.sink == KAFKA]
        for query in self._queries:
            self._server.make_topic(self._topic(query), partitions=_PARTITIONS)

    def rows(self, query: Query) -> list[Row]:
        """What a consumer reads in the topic of a query; in update mode the newest row of each key, and repeats."""
        before, rows = self._read.get(query.name, ({}, []))
        try:
            ends = self._ends([query], committed=True)
            if ends == before:
                return rows
            kind, messages = KINDS[query.kind], read(self._server.address, self._topic(query), is_open=True)
        except KafkaException:
            return rows
        found = [_row(kind, message.value() or b"{}") for message in messages]
        rows = newest_and_repeats(found, key=len(kind.key)) if kind.mode == "update" else found
        self._read[query.name] = ends, rows
        return rows

    def moves(self) -> bool:
        """Whether a transaction of a batch is open."""
        try:
            last = self._ends(self._queries, committed=False)
            stable = self._ends(self._queries, committed=True)
        except KafkaException:
            return False
        return any(stable[place] < end for place, end in last.items())

    def holds(self) -> bool:
        """The same: an open transaction is that of whoever was stopped."""
        return self.moves()

    def leave(self) -> None:
        """Take the broker away."""
        self._away.leave()

    def come_back(self) -> None:
        """Bring the broker back."""
        self._away.come_back()

    def close(self) -> None:
        """Drop the client."""
        self._admin = None

    def _topic(self, query: Query) -> str:
        return topic_of(self._folder, query.name, TARGET)

    def _ends(self, queries: Sequence[Query], *, committed: bool) -> Ends:
        """Where the topics end for a reader. Raises KafkaException."""
        if self._admin is None:
            quiet: Any = {"log_level": 0, "error_cb": lambda error: None}  # a broker that is away is no news here
            self._admin = AdminClient({"bootstrap.servers": self._server.address, **quiet})
        asked = {
            TopicPartition(self._topic(query), place): OffsetSpec.latest()
            for query in queries
            for place in range(_PARTITIONS)
        }
        if not asked:
            return {}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        answers = self._admin.list_offsets(asked, isolation_level=level, request_timeout=_ANSWER_S)
        try:
            return {(place.topic, place.partition): answer.result().offset for place, answer in answers.items()}
        except KafkaException:
            self._admin = None  # it would name an old epoch of the partitions' leader for ever
            raise


def newest_and_repeats(rows: Iterable[Row], *, key: int) -> list[Row]:
    """The newest row with each of the first `key` columns, and each row that came a second time."""
    newest: dict[Row, Row] = {}
    seen: set[Row] = set()
    again = []
    for row in rows:
        newest[row[:key]] = row
        again += [row] if row in seen else []
        seen.add(row)
    return [*newest.values(), *again]


def _row(kind: Kind, value: bytes) -> Row:
    found = json.loads(value)
    return tuple(
        datetime.fromisoformat(found[name]).astimezone(UTC) if name == "at" else found[name] for name in kind.columns
    )
