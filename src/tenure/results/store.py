"""The result of one scope: written dirty under the term, once; then clean, then forgotten.

Promise (I7): when `write_dirty` returns, the result is durable, and it is the only result: the first writer wins. A
scope with a result has ended until the result is forgotten (after Flink's JobResultStore, FLIP-194).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tenure.coordination.records import Key, Record
from tenure.coordination.term import Term
from tenure.errors import HandleExists, HandleNotFound
from tenure.handles.handle import decode_handle
from tenure.handles.store import HandleStore
from tenure.results.result import Result, Stage, decode_result, encode_result

RESULTS: Final = Key("results")
"""The area of the result's handle."""

_NAME: Final = "result"


class ResultStore:
    """The result, in a handle store that keeps every payload inline: a result outlives all blobs."""

    def __init__(self, handles: HandleStore) -> None:
        self._handles = handles

    def read(self, term: Term | None = None) -> Result | None:
        """The result; None: the pipeline has not ended. Waits for an unavailable store until the deadline of `term`,
        without a term for some seconds. Raises CorruptHandle, CorruptRecord, StoreUnavailable, TermLost."""
        handle = self._handles.find(_NAME, term)
        return None if handle is None else decode_result(self._handles.payload(handle))

    def write_dirty(self, term: Term, result: Result) -> Result:
        """Write the result; return the standing result, which may be an earlier writer's.

        Raises TermLost, StoreUnavailable, CorruptHandle, CorruptRecord.
        """
        dirty = replace(result, stage=Stage.DIRTY)
        try:
            self._handles.add(term, _NAME, encode_result(dirty))
        except HandleExists:
            standing = self.read(term)
            assert standing is not None, "only a term forgets a result, and this term has not"
            return standing
        return dirty

    def mark_clean(self, term: Term) -> None:
        """Record the end of the cleanup. Raises TermLost, StoreUnavailable, HandleNotFound (there is no result)."""
        handle = self._handles.find(_NAME, term)
        if handle is None:
            raise HandleNotFound(f"scope {term.scope!r} has no result")
        result = decode_result(self._handles.payload(handle))
        if result.stage is Stage.DIRTY:
            self._handles.replace(term, handle, encode_result(replace(result, stage=Stage.CLEAN)))

    def forget(self, term: Term) -> None:
        """Let the scope run again from the beginning; nothing when there is no result. Raises TermLost,
        StoreUnavailable."""
        self._handles.remove(term, _NAME)


def result_in(records: Sequence[Record]) -> Result | None:
    """The result among the records of a scope; None: there is none. Raises CorruptHandle, CorruptRecord."""
    found = next((record for record in records if record.key == RESULTS.child(_NAME)), None)
    if found is None:
        return None
    return decode_result(decode_handle(found).inline or b"")
