"""Pure: what in the storage belongs to nobody while a pipeline goes on (FLIP-270's second proposal, by epochs).

Promise: what is called an orphan was there before `Claims` was read, is named by nothing in it, and can be named by
nothing ever after, since no record of an earlier epoch is written any more (I5). So there are no marks, no further
records and no age. A mirror may only be run in the session in which it was filled, so it belongs to nobody once its
member's record is gone. Whatever does not look as Tenure names things is never an orphan.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from tenure.checkpoints.run_name import RUNS as RUNS_FOLDER
from tenure.checkpoints.run_name import RunName
from tenure.cleanup.plan import AREAS, BLOBS, REHEARSALS, row_at

BLOBS_FOLDER: Final = AREAS[BLOBS].folder
REHEARSALS_FOLDER: Final = AREAS[REHEARSALS].folder
_BLOB = re.compile(rf"{BLOBS_FOLDER}/e(?P<epoch>\d{{8,}})/.*", re.DOTALL)
_REHEARSAL = re.compile(rf"{REHEARSALS_FOLDER}/(?P<member>[^/]+)/[^/]*")


@dataclass(frozen=True, slots=True)
class Claims:
    """What the records of a scope say, when the storage is listed. Those of a term alone are the records at their
    least: what is no orphan then is none, whatever they say."""

    epoch: int
    """Of the term under which is swept; where nobody leads, the one that the next grant gives."""
    holder: str
    """The member that holds it; empty: nobody does yet."""
    members: frozenset[str] = frozenset()
    """Whose sessions live."""
    named: frozenset[str] = frozenset()
    """The paths below the storage that a record names: blobs, locked ones included, and run directories."""


def is_orphan(path: str, claims: Claims) -> bool:
    """Whether a path below the storage belongs to nobody. One that ends with `/` is a folder with nothing in it."""
    if path in claims.named:
        return False
    run = RunName.parse(path)
    if run is not None:
        mirrored_for = claims.epoch + 1 if claims.holder else claims.epoch
        if run.epoch > mirrored_for:
            return False  # nobody of this store can have made it
        if run.epoch == mirrored_for:
            return _is_gone(run.member, claims)
        # One of the term's epoch that is not its holder's is a mirror of somebody who was not elected.
        return run.epoch < claims.epoch or run.member != claims.holder
    blob = _BLOB.fullmatch(path)
    if blob is not None:
        return int(blob["epoch"]) < claims.epoch
    rehearsal = _REHEARSAL.fullmatch(path)
    # Whoever leads does not rehearse; to whom it happens that a rehearsal is removed, tries again.
    return rehearsal is not None and (rehearsal["member"] == claims.holder or _is_gone(rehearsal["member"], claims))


def orphans_in(folder: str, claims: Claims) -> bool | None:
    """Whether everything that lies in a folder, and is named by no record itself, belongs to nobody. None: its names
    decide, so each has to be asked for."""
    parts = folder.split("/")
    if "" in parts:
        return False
    if parts[0] == BLOBS_FOLDER and len(parts) > 1:
        return is_orphan(f"{folder}/", claims)
    return is_orphan("/".join(parts[:3]), claims) if len(parts) > 2 else None


def _is_gone(member: str, claims: Claims) -> bool:
    return member != claims.holder and member not in claims.members


@dataclass(frozen=True, slots=True)
class OrphanRule:
    """The rule of a scope's storage while its pipeline goes on."""

    claims: Claims
    whole: bool = False

    @property
    def named(self) -> Collection[str]:
        return self.claims.named

    def of_folders(self, folders: Sequence[str]) -> Sequence[bool | None]:
        return [orphans_in(folder, self.claims) for folder in folders]

    def of_paths(self, paths: Sequence[str]) -> Sequence[bool]:
        return [is_orphan(path, self.claims) for path in paths]

    def unit(self, folder: str) -> str | None:
        parts = folder.split("/")
        return "/".join(parts[:3]) if parts[0] in (RUNS_FOLDER, REHEARSALS_FOLDER) and len(parts) > 2 else None

    def stays(self, path: str) -> int:
        return AREAS[row_at(path)].stays
