"""The input files that an operator has taken out of a planned batch: one record for each query.

Promise: such a record is written only while nobody leads, by a commit that begins and ends an epoch of its own
(`operate/quarantine.py`), so within one term it does not change. It names the batch: for any other batch
it says nothing. The files count as planned and empty; each other planned file must be there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

from tenure.coordination.encoding import decode_as, encode
from tenure.coordination.records import Key, Record

QUARANTINED: Final = Key("quarantined")
"""The parent of one record for each query."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Files that batch `batch` of a query runs without, as Hadoop names them."""

    query: str
    batch: int
    files: tuple[str, ...]
    to: str
    """The folder to which they are moved."""
    by: str
    at: str
    why: str
    """The failure over which the scope was paused; empty: it was not."""

    def encode(self, *, uid: str) -> bytes:
        """The bytes of its record; the name of the query is in the key."""
        fields = {name: value for name, value in asdict(self).items() if name != "query"}
        return encode({**fields, "files": list(self.files), "uid": uid})


def decode_left_out(record: Record) -> LeftOut:
    """The files of a record. Raises CorruptRecord."""
    return decode_as(LeftOut, record, query=record.key.name)


def left_out_in(records: Iterable[Record], query: str) -> LeftOut | None:
    """The files of a query in the records of a scope; None: there is no such record. Raises CorruptRecord."""
    key = QUARANTINED.child(query)
    return next((decode_left_out(record) for record in records if record.key == key), None)
