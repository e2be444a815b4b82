"""The examination of a SQLite store: where its file lies.

Promise: nothing is written. The refusals of a place (a network file system, a mount of the file alone) come from the
opening of the file, as for a member.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from tenure.backends.sqlite.mounts import MOUNTINFO, mount_of
from tenure.coordination.examination import Grade, Remark
from tenure.coordination.records import Scope


class SqliteExamination:
    """Of the file at `path`."""

    has_scratch = True

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def local_folder(self) -> str:
        return str(self._path.parent)

    def examine(self, scope: Scope | None) -> Sequence[Remark]:
        return (
            Remark(
                Grade.NOTE,
                f"the store is the file {self._path}{self._place()}",
                "only members on this machine can use it, so the death of the machine ends the pipeline",
                "for members on other machines, use a store that is a server",
            ),
        )

    def server_time(self, scope: Scope) -> datetime | None:
        return None  # this machine's

    def forget(self, scope: Scope) -> None:
        """A scope without records leaves nothing."""

    def _place(self) -> str:
        if not MOUNTINFO.exists():
            return ""
        text = MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
        mount = mount_of(self._path.resolve(), text)
        return "" if mount is None else f", on {mount.file_system}"
