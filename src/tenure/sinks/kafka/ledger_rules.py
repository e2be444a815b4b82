"""The records of the ledger, and the decisions that follow from the newest record: pure.

Promise (I3): `had_before` lets a batch be written only on top of the batch before it, once, and never under a lower
epoch than the newest of its scope. Each scope counts its epochs from 1, so those of two scopes are not compared: a
scope that a query moves to goes on where its checkpoint is. A ledger without a record of the query knows nothing: any
batch may come first.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Final

from tenure.errors import Fenced, QueryFailed
from tenure.sinks.sink import Batch

FORMAT: Final = 1
PREFIX: Final = "tenure-ledger-"
"""The topics of ledgers begin so, unless the pipeline names another."""

_NOT_IN_TOPICS: Final = re.compile(r"[^A-Za-z0-9._-]")
_TOPIC: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}\Z")


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The newest batch of a query, and the newest epoch. `attempt`: the call that wrote the batch."""

    scope: str
    query: str
    batch: int
    epoch: int
    attempt: str

    def encode(self) -> bytes:
        """The value of the record. Its key is Spark's id of the query."""
        return json.dumps({"format": FORMAT, **asdict(self)}).encode()

    @classmethod
    def decode(cls, value: bytes, *, where: str) -> LedgerEntry:
        """Raises QueryFailed: the record is not of this format."""
        try:
            fields = json.loads(value)
            if fields.pop("format") != FORMAT:
                raise ValueError("another format")
            entry = cls(**fields)
            if not all(isinstance(number, int) for number in (entry.batch, entry.epoch)):
                raise ValueError("no numbers")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise QueryFailed(
                f"{where} has a record that cannot be read: {value[:80]!r}",
                fix="run the version of Tenure that wrote it, or name another topic as ledger=",
            ) from error
        return entry


def transactional_id(query_id: str) -> str:
    """The name by which the brokers fence the writers of a query: those of a scope that it has moved from, too."""
    return f"tenure/{query_id}"


def ledger_topic(query_id: str) -> str:
    """The topic of a query's ledger, where the pipeline names none: the same in a scope that the query moves to."""
    name = f"{PREFIX}{query_id}"
    plain = _NOT_IN_TOPICS.sub("_", name)
    return name if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def is_topic(name: str) -> bool:
    """Whether Kafka takes the name for a topic."""
    return _TOPIC.match(name) is not None


def claimed(newest: LedgerEntry | None, batch: Batch) -> LedgerEntry | None:
    """The record by which a new leader claims the ledger; None: its epoch is there."""
    if newest is None:
        return LedgerEntry(batch.scope, batch.query, -1, batch.epoch, "")
    if newest.scope != batch.scope:  # a job of plain Spark may have sent batches since
        return LedgerEntry(batch.scope, batch.query, batch.id - 1, batch.epoch, "")
    if newest.epoch >= batch.epoch:
        return None
    return LedgerEntry(batch.scope, batch.query, newest.batch, batch.epoch, newest.attempt)


def had_before(newest: LedgerEntry | None, batch: Batch, *, attempt: str, where: str) -> bool | None:
    """Whether Kafka had the batch before this attempt; None: Kafka does not have it, and takes it now.

    Raises Fenced: a higher epoch has written; QueryFailed: the ledger lacks batches before, or has the batch of another
    scope.
    """
    if newest is None:
        return None
    if newest.scope != batch.scope:
        if newest.batch < batch.id:
            return None
        raise QueryFailed(
            f"{where} has batch {batch.id} of query {batch.query!r} from scope {newest.scope!r}: two scopes have "
            "adopted one copy of a checkpoint",
            fix="copy the checkpoint for each scope: tenure export --batch gives each copy an id of its own",
        )
    if newest.epoch > batch.epoch:
        raise Fenced(f"{where} has seen a higher epoch than {batch.epoch} of query {batch.query!r}")
    if newest.batch >= batch.id:
        return newest.attempt != attempt
    if 0 <= newest.batch < batch.id - 1:  # each batch is noted, also without rows
        raise QueryFailed(
            f"{where} has query {batch.query!r} up to batch {newest.batch}, and batch {batch.id} is next: the topic "
            "was restored from an older copy",
            fix="restore the newer copy, or begin anew with another --scope and an empty topic",
        )
    return None


def refuse_older(newest: LedgerEntry | None, known: LedgerEntry | None, *, where: str) -> None:
    """Refuse a ledger that knows less than this process has read in it. Raises QueryFailed."""
    if known is not None and (newest is None or newest.batch < known.batch):
        raise QueryFailed(
            f"{where} has forgotten batch {known.batch} of query {known.query!r}: the topic was removed or emptied",
            fix="begin anew with another --scope and an empty topic",
        )
