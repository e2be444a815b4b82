"""The planned input files of a batch, by the logs of its run directory. No Spark is needed.

Promise: the files are all that the logs of the file sources name for the batch. Other sources have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tenure.checkpoints.source import FILES
from tenure.rundirs.run_directory import RunDirectory
from tenure.rundirs.seed_logs import entries_between, files_in_entry, kind_of, last_entry, source_folders

if TYPE_CHECKING:
    from tenure.rundirs.moved_files import Move  # which needs Spark


def planned_inputs(
    directory: RunDirectory,
    batch: int,
    *,
    offsets: str,
    folders: Sequence[str],
    kinds: Mapping[str, str],
    moves: Mapping[str, Move],
) -> tuple[str, ...]:
    """The input files of a batch, as Hadoop names them, from the logs of the file sources in a run directory. Other
    sources have none. `offsets`, `folders`, `kinds`: as in the checkpoint. `moves`: of sources, by their folder. Raises
    CorruptRunDirectory, StorageError."""
    where = f"plan of batch {batch}"
    until = source_folders(offsets, folders, where=where)
    before: dict[str, str | None] = {}
    if batch > 0:
        path = f"offsets/{batch - 1}"
        before = dict(source_folders(directory.read_text(path), folders, where=directory.where(path)))
    inputs: list[str] = []
    for folder, offset in until.items():
        names = directory.list(f"sources/{folder}") if folder not in kinds else ()
        if kind_of(kinds.get(folder), offset, names) == FILES:
            where = f"plan of batch {batch}, source {folder}"
            after = last_entry(before.get(folder), where=where)
            logged = _logged(directory, f"sources/{folder}", after=after, last=last_entry(offset, where=where))
            move = moves.get(folder)
            inputs += [unquote(url if move is None else move.of(url)) for url in logged]
    return tuple(inputs)


def _logged(directory: RunDirectory, folder: str, *, after: int, last: int) -> Iterator[str]:
    if after >= last:
        return
    for name in entries_between(directory.list(folder), after, last, where=directory.where(folder)):
        path = f"{folder}/{name}"
        text = directory.read_text(path)
        yield from files_in_entry(text, after=after, last=last, where=directory.where(path))
