"""The ledger of a query: a property of the table, which the commit of each batch sets with the batch.

Promise: a property outlives the snapshots that expire, and the compaction of their files. The summary of the batch's
snapshot has the same, for people, and for a commit whose reply was lost. Pure rules. Not promised: a batch whose
property an operator has unset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenure.errors import Corrupt, Fenced, QueryFailed
from tenure.sinks.sink import Batch

PREFIX: Final = "tenure."
_ATTEMPT: Final = f"{PREFIX}attempt"
_BATCH: Final = f"{PREFIX}batch"
_QUERY_ID: Final = f"{PREFIX}query-id"
_SPARKS: Final = ("spark.sql.streaming.queryId", "spark.sql.streaming.epochId")
"""By which Spark's own sink for Iceberg notes a batch in the summary of its snapshot."""


@dataclass(frozen=True, slots=True)
class NotedBatch:
    """The newest batch of a query in a table."""

    scope: str
    query: str
    batch: int
    epoch: int
    attempt: str
    """The folder of its files, below the folder of the table's data."""

    @classmethod
    def of(cls, batch: Batch, attempt: str) -> NotedBatch:
        return cls(batch.scope, batch.query, batch.id, batch.epoch, attempt)

    def text(self) -> str:
        """The value of the property."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    def summary(self, query_id: str) -> dict[str, str]:
        """For the summary of the snapshot."""
        return {
            _QUERY_ID: query_id,
            _BATCH: str(self.batch),
            f"{PREFIX}epoch": str(self.epoch),
            _ATTEMPT: self.attempt,
        }

    def refuse(self, batch: Batch, *, where: str) -> None:
        """Raise the error of a batch that this entry keeps out, though the entry is not of the batch. Raises Fenced: a
        higher epoch has written; QueryFailed: the batch is another scope's."""
        if self.scope == batch.scope:
            if self.epoch > batch.epoch:
                raise Fenced(f"{where} has seen epoch {self.epoch} of query {batch.query!r}, and this is {batch.epoch}")
        elif self.batch >= batch.id:
            raise QueryFailed(
                f"{where} has batch {batch.id} of query {batch.query!r} from scope {self.scope!r}: two scopes have "
                "adopted one copy of a checkpoint",
                fix="copy the checkpoint for each scope: tenure export --batch gives each copy an id of its own",
            )


def property_of(query_id: str) -> str:
    """The name of the property."""
    return f"{PREFIX}{query_id}"


def entry_of(properties: Mapping[str, str], query_id: str, *, where: str) -> NotedBatch | None:
    """The entry of a query; None: the table has none of its batches. Raises Corrupt."""
    text = properties.get(property_of(query_id))
    if text is None:
        return None
    try:
        return _read(text)
    except (ValueError, TypeError, KeyError) as error:
        raise Corrupt(
            f"the property {property_of(query_id)} of {where} does not decode: {text!r}",
            fix="restore it from the summary of the query's newest snapshot",
        ) from error


def _read(text: str) -> NotedBatch:
    found = json.loads(text)
    return NotedBatch(
        str(found["scope"]), str(found["query"]), int(found["batch"]), int(found["epoch"]), str(found["attempt"])
    )


def in_words(properties: Mapping[str, str], *, scope: str, query: str) -> list[str]:
    """The queries that have written to the table, for people, when `query` of `scope` is about to write."""
    words = []
    for name, text in sorted(properties.items()):
        if not name.startswith(PREFIX):
            continue
        try:
            entry = _read(text)
        except (ValueError, TypeError, KeyError):
            words.append(f"the writer of property {name!r}")
            continue
        earlier = "an earlier life of " if (entry.scope, entry.query) == (scope, query) else ""
        words.append(f"{earlier}stream {entry.query!r} of scope {entry.scope!r}")
    return list(dict.fromkeys(words))


def has_made(summaries: Iterable[Mapping[str, Any]], query_id: str, batch: int, attempt: str) -> bool | None:
    """Whether an attempt has made the snapshot of a batch, by the summaries of snapshots. None: no snapshot is the
    batch's any more."""
    for summary in summaries:
        if (summary.get(_QUERY_ID), summary.get(_BATCH)) == (query_id, str(batch)):
            return summary.get(_ATTEMPT) == attempt
    return None


def newest_of_spark(summaries: Iterable[Mapping[str, Any]], query_id: str) -> int | None:
    """The newest batch that Spark's own sink has noted under this id of the query; None: it noted none."""
    of_query, of_batch = _SPARKS
    found: Sequence[str] = [
        str(summary[of_batch]) for summary in summaries if summary.get(of_query) == query_id and summary.get(of_batch)
    ]
    return max((int(text) for text in found if text.isdigit()), default=None)


def attempts_in(properties: Mapping[str, str], summaries: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """The attempts that the table's ledgers and its snapshots name."""
    named = {str(summary[_ATTEMPT]) for summary in summaries if summary.get(_ATTEMPT)}
    for name, text in properties.items():
        if name.startswith(PREFIX):
            try:
                named.add(_read(text).attempt)
            except (ValueError, TypeError, KeyError):
                continue  # no ledger of this version
    return frozenset(named)
