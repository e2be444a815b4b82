"""Pure: what in the storage belongs to nobody while a pipeline goes on (FLIP-270's second proposal, by epochs).

Promise: what is called an orphan was there before `Seen` was read, is named by nothing in it, and can be named by
nothing ever after, since no record of an earlier epoch is written any more (I5). So there are no marks, no further
records and no age. A mirror may only be run in the session in which it was filled, so it belongs to nobody once its
member's record is gone. Whatever does not look as Tenure names things is never an orphan.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tenure.checkpoints.run_name import RunName

BLOBS: Final = "blobs"
REHEARSALS: Final = "rehearsals"

_BLOB = re.compile(rf"{BLOBS}/e(?P<epoch>\d{{8,}})/.*", re.DOTALL)
_REHEARSAL = re.compile(rf"{REHEARSALS}/(?P<member>[^/]+)/[^/]*")


@dataclass(frozen=True, slots=True)
class Seen:
    """What the records of a scope said, after the storage was listed."""

    epoch: int
    """Of the term under which is swept; where nobody leads, the one that the next grant gives."""
    holder: str
    """The member that holds it; empty: nobody does yet."""
    members: frozenset[str]
    """Whose sessions live."""
    named: frozenset[str]
    """The paths below the storage that a record names: blobs, locked ones included, and run directories."""


def nothing_seen(*, epoch: int, holder: str) -> Seen:
    """The records at their least: what is no orphan then is none, whatever they say."""
    return Seen(epoch, holder, frozenset(), frozenset())


def is_orphan(path: str, seen: Seen) -> bool:
    """Whether a path below the storage belongs to nobody. One that ends with `/` is a folder with nothing in it."""
    if path in seen.named:
        return False
    run = RunName.parse(path)
    if run is not None:
        mirrored_for = seen.epoch + 1 if seen.holder else seen.epoch
        if run.epoch > mirrored_for:
            return False  # nobody of this store can have made it
        if run.epoch == mirrored_for:
            return _is_gone(run.member, seen)
        # One of the term's epoch that is not its holder's is a mirror of somebody who was not elected.
        return run.epoch < seen.epoch or run.member != seen.holder
    blob = _BLOB.fullmatch(path)
    if blob is not None:
        return int(blob["epoch"]) < seen.epoch
    rehearsal = _REHEARSAL.fullmatch(path)
    # Whoever leads does not rehearse; to whom it happens that a rehearsal is removed, tries again.
    return rehearsal is not None and (rehearsal["member"] == seen.holder or _is_gone(rehearsal["member"], seen))


def orphans_in(folder: str, seen: Seen) -> bool | None:
    """Whether everything that lies directly in a folder, and is named by no record itself, belongs to nobody. None: its
    names decide, so each has to be asked for."""
    parts = folder.split("/")
    if "" in parts:
        return False
    if parts[0] == BLOBS:
        return is_orphan(f"{folder}/", seen)
    return is_orphan("/".join(parts[:3]), seen) if len(parts) > 2 else None


def _is_gone(member: str, seen: Seen) -> bool:
    return member != seen.holder and member not in seen.members
