"""Compares the declarations of a pipeline file with those recorded in the scope, and records the new ones.

Promise: a change that an operator must decide on is an error before the member contends. The comparison is repeated
under each term before anything is planned, as another member may have recorded other declarations meanwhile, or a newer
Spark. A declaration is recorded before it runs. A pipeline that has ended for good is not compared, only cleaned up.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from tenure.coordination.term import Term
from tenure.declarations.declaration import ZONE, Declaration, DeclaredStream, kept_zone
from tenure.declarations.rules import Allowed, Judgement, changed_queries, judge
from tenure.declarations.sparks import check_spark, epochs_of, spark_before
from tenure.declarations.store import Found
from tenure.errors import DeclaredOtherwise, StorageError
from tenure.events import DeclarationChanged, FlagsNotNeeded, TableShared
from tenure.pipelines.pipeline import Stream
from tenure.scope_context import ScopeContext
from tenure.sinks.sink import Shared
from tenure.spark.releases import installed
from tenure.spark.state_shape import shape_of
from tenure.spark.time_zone import NO_ZONE, GivenZone, zones_of

_CHANGED_ZONE: Final = "--changed-zone"


class Declarations:
    """Compares the streams of a pipeline file, before the member contends and before a term plans."""

    def __init__(
        self,
        context: ScopeContext,
        *,
        file: str,
        allowed: Allowed,
        zone: GivenZone = NO_ZONE,
        heard: ScopeContext | None = None,
    ) -> None:
        """`file`: the fingerprint of the pipeline file. `allowed`: the changes that an operator allows by flags.
        `heard`: the scope as a standby knows it; None: `context`."""
        self._context = context
        self._heard = heard or context
        self._scope = context.scope
        self._file = file
        self._allowed = allowed
        self._zone = zone
        self._events = context.events

    def kept_zone(self, term: Term | None = None) -> str | None:
        """The time zone of the scope, read under `term` if there is one; None: it has none. Raises StoreUnavailable,
        CorruptRecord, TermLost."""
        return kept_zone(self._read(term).declaration)

    def _read(self, term: Term | None) -> Found:
        return self._known(term).declarations().read(term)

    def _known(self, term: Term | None) -> ScopeContext:
        return self._heard if term is None else self._context

    def check(self, streams: Sequence[Stream]) -> None:
        """Raises DeclaredOtherwise: the streams may not run as declared; StoreUnavailable, CorruptRecord."""
        recorded = self._read(None)
        if recorded.ended:
            return
        judged = self._judge(recorded, streams, None)
        needless = [*judged.needless.flags()]
        if self._zone.may_change and (recorded.declaration is None or recorded.declaration.zone == judged.record.zone):
            needless.append(_CHANGED_ZONE)
        if needless:
            self._events.emit(FlagsNotNeeded(self._scope, flags=" ".join(needless)))
        self._report_shared_tables([stream for stream in streams if stream.name not in recorded.checkpointed])

    def record(self, term: Term, streams: Sequence[Stream]) -> None:
        """Record the streams that run under the term. Raises as `check` does, and TermLost."""
        recorded = self._read(term)
        judged = self._judge(recorded, streams, term)
        if judged.record == recorded.declaration:
            return
        self._context.declarations().write(term, judged.record, replaces=recorded.record)
        if judged.news:
            self._events.emit(DeclarationChanged(self._scope, epoch=term.epoch, what="; ".join(judged.news)))

    def _judge(self, recorded: Found, streams: Sequence[Stream], term: Term | None) -> Judgement:
        spark, epoch = installed(), 0 if term is None else term.epoch  # without a term nothing is written

        def epochs() -> Collection[int]:
            return epochs_of(recorded.handles.values())

        check_spark(self._scope, recorded.declaration, epochs, spark=spark)
        zone, was = zones_of(streams, recorded.declaration, self._zone)
        declared = Declaration(
            self._file,
            spark,
            {stream.name: DeclaredStream(shape_of(stream), sources=stream.sources) for stream in streams},
            zone,
            spark_before(recorded.declaration, epochs, spark=spark, epoch=epoch),
        )
        changed = sorted(changed_queries(recorded.declaration) & recorded.checkpointed)
        newest = {name: self._known(term).checkpoints(name).newest(term) for name in changed}
        judged = judge(
            recorded.declaration,
            declared,
            checkpointed=recorded.checkpointed,
            allowed=self._allowed,
            newest={name: checkpoint.epoch for name, checkpoint in newest.items() if checkpoint is not None},
            epoch=epoch,
        )
        refused, flags, news = [*judged.refused], [*judged.wanted.flags()], judged.news
        if was not in (None, zone) and recorded.checkpointed:
            news = (*news, f"the queries compute in the time zone {zone}, and did in {was}")
            if not self._zone.may_change:
                refused.append(f"its queries have computed in the time zone {was}, and would in {zone} ({ZONE})")
                flags.append(_CHANGED_ZONE)
        if refused:
            raise DeclaredOtherwise(
                f"scope {self._scope!r} has run another pipeline: {'; '.join(refused)}",
                fix=" ".join(("undo that, or allow it once by", *flags)) if flags else "undo that",
            )
        return replace(judged, news=news)

    def _report_shared_tables(self, streams: Sequence[Stream]) -> None:
        """Emit an event for each new stream whose target has other writers."""
        for stream in streams:
            if not isinstance(stream.sink, Shared):
                continue
            try:
                others = stream.sink.other_writers(scope=self._scope, query=stream.name)
            except StorageError:
                continue  # the first batch raises it, if the target still cannot be read
            if others:
                self._events.emit(TableShared(self._scope, query=stream.name, by="; ".join(others)))
