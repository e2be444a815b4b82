"""Pure: the orphans in the storage of a pipeline that goes on (FLIP-270's second proposal, by epochs).

Promise: an orphan was listed before `Claims` was read, no claim names it, and no later record can name it, since no
record of an earlier epoch is written any more (I5). So there are no marks, no further records and no age. A mirror runs
only in the session in which it was filled, so it is an orphan once its member's record is gone. A path that does not
look like Tenure's names is never an orphan.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from tenure.checkpoints.run_name import RUNS as RUNS_FOLDER
from tenure.checkpoints.run_name import RunName
from tenure.cleanup.plan import AREAS, BLOBS, REHEARSALS, row_at
from tenure.coordination.encoding import new_uid

BLOBS_FOLDER: Final = AREAS[BLOBS].folder
REHEARSALS_FOLDER: Final = AREAS[REHEARSALS].folder
_BLOB = re.compile(rf"{BLOBS_FOLDER}/e(?P<epoch>\d{{8,}})/.*", re.DOTALL)
_REHEARSAL = re.compile(rf"{REHEARSALS_FOLDER}/(?P<member>[^/]+)/[^/]*")


def scratch_folder(query: str, batch: int, *, epoch: int) -> str:
    """A new folder below a scope's storage for one attempt at a batch. No record names it: it is an orphan when the
    epoch is over."""
    return f"{BLOBS_FOLDER}/e{epoch:08d}/scratch/{query}/b{batch:012d}-{new_uid()}"


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a scope's records on the listed storage. Claims with a term only make a wide rule: a path
    that is no orphan by them is no orphan by any other claims of the term."""

    epoch: int
    """The epoch of the sweeping term; where nobody leads, the next epoch."""
    holder: str
    """The holder of the term; empty: nobody holds it yet."""
    members: frozenset[str] = frozenset()
    """The members whose sessions live."""
    named: frozenset[str] = frozenset()
    """The paths below the storage that a record names: blobs, with the locked blobs, and run directories."""


def is_orphan(path: str, claims: Claims) -> bool:
    """Whether a path below the storage is an orphan. A path that ends with `/` is an empty folder."""
    if path in claims.named:
        return False
    run = RunName.parse(path)
    if run is not None:
        mirrored_for = claims.epoch + 1 if claims.holder else claims.epoch
        if run.epoch > mirrored_for:
            return False  # no member of this store can have made it
        if run.epoch == mirrored_for:
            return _is_gone(run.member, claims)
        # A directory of the term's epoch that is not its holder's is the mirror of a member that was not elected.
        return run.epoch < claims.epoch or run.member != claims.holder
    blob = _BLOB.fullmatch(path)
    if blob is not None:
        return int(blob["epoch"]) < claims.epoch
    rehearsal = _REHEARSAL.fullmatch(path)
    # A leader does not rehearse; a standby whose rehearsal is removed tries again.
    return rehearsal is not None and (rehearsal["member"] == claims.holder or _is_gone(rehearsal["member"], claims))


def orphans_in(folder: str, claims: Claims) -> bool | None:
    """Whether the content of a folder is orphans, except for the paths that a record names. None: the names in the
    folder decide, each by itself."""
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
