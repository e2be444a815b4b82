"""Which of the listed files go: a `Judge`, asked once for a folder instead of once for a file. Here is that of a
scope's storage, which follows `cleanup/orphans.py`; that of a table is in `sinks/delta_sweep.py`.

Promise: a file goes exactly when its judge says so. Sizes that the listing did not tell are asked for those that go
only, or for none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tenure.checkpoints.run_name import RUNS
from tenure.cleanup.orphans import REHEARSALS, Seen, is_orphan, orphans_in
from tenure.cleanup.spark.plan import FILES, FOLDERS, LISTED
from tenure.storage.trees import Listed

_UNIT: Final = re.compile(rf"(?:{RUNS}|{REHEARSALS})/[^/]+/[^/]+")


class Judge(Protocol):
    """What was read after the files were listed, and decides which of them go. It is sent to tasks."""

    @property
    def epoch(self) -> int:
        """Everything that goes is of an earlier one, or of a member that was gone."""
        ...

    @property
    def holder(self) -> str:
        """Who leads; empty: nobody does."""
        ...

    @property
    def named(self) -> Collection[str]:
        """These paths stay, whatever is said of their folders."""
        ...

    def of_folders(self, folders: Sequence[str]) -> Sequence[bool | None]:
        """For each whether what lies directly in it goes. None: its names decide."""
        ...

    def of_path(self, path: str) -> bool:
        """Whether one file goes, when its folder does not decide."""
        ...

    def kind(self, folder: str) -> str:
        """The row of the cleanup's plan."""
        ...

    def unit(self, folder: str) -> str | None:
        """The orphan that what lies in a folder is part of; None: each file is one by itself."""
        ...


@dataclass(frozen=True, slots=True)
class StorageJudge:
    """Of what lies in a scope's storage."""

    seen: Seen

    @property
    def epoch(self) -> int:
        return self.seen.epoch

    @property
    def holder(self) -> str:
        return self.seen.holder

    @property
    def named(self) -> Collection[str]:
        return self.seen.named

    def of_folders(self, folders: Sequence[str]) -> Sequence[bool | None]:
        return [orphans_in(folder, self.seen) for folder in folders]

    def of_path(self, path: str) -> bool:
        return is_orphan(path, self.seen)

    def kind(self, folder: str) -> str:
        return FOLDERS.get(folder.split("/", 1)[0], "")

    def unit(self, folder: str) -> str | None:
        found = _UNIT.match(folder)
        return None if found is None else found[0]


def table_of(found: Sequence[Listed]) -> pa.Table:
    """Listed files as rows of `LISTED`."""
    folders: list[str] = []
    indices: list[int] = []
    names: list[str] = []
    sizes: list[int | None] = []
    for one in found:
        if not folders or folders[-1] != one.folder:
            folders.append(one.folder)
        count = len(one.names)
        indices += [len(folders) - 1] * count
        names += one.names
        sizes += [None] * count if one.sizes is None else one.sizes
    folder = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(folders, pa.string()))
    return pa.table([folder, pa.array(names, pa.string()), pa.array(sizes, pa.int64())], schema=LISTED)


Sizes = Callable[[Sequence[str]], Sequence[int]]


def orphans_among(rows: pa.Table, judge: Judge, *, sizes: Sizes | None) -> pa.Table:
    """Those of `LISTED` that nobody needs, as rows of `FILES`. `sizes`: tells those of paths, where they are missing;
    None: they stay null."""
    found = [_orphans_in_batch(batch, judge, sizes) for batch in rows.to_batches()]
    return pa.concat_tables(found) if found else FILES.empty_table()


def _orphans_in_batch(batch: pa.RecordBatch, judge: Judge, sizes: Sizes | None) -> pa.Table:
    folders = batch.column("folder")
    known: list[str] = folders.dictionary.to_pylist()
    rulings = judge.of_folders(known)
    maybe = pc.take(pa.array([ruling is not False for ruling in rulings], pa.bool_()), folders.indices)
    batch = batch.filter(maybe)
    folders = batch.column("folder")
    path = pc.binary_join_element_wise(folders.cast(pa.string()), batch.column("name"), "/")
    named = pc.is_in(path, value_set=pa.array(sorted(judge.named), pa.string()))
    ruling = pc.take(pa.array(rulings, pa.bool_()), folders.indices)
    by_name = ruling.is_null()
    verdicts = pa.array([judge.of_path(one) for one in path.filter(by_name).to_pylist()], pa.bool_())
    goes = pc.replace_with_mask(pc.and_(pc.invert(named), ruling), by_name, verdicts)
    path, indices = path.filter(goes), folders.indices.filter(goes)
    told = batch.column("size").filter(goes)
    if sizes is not None and told.null_count == len(told):
        told = pa.array(sizes(path.to_pylist()), pa.int64())
    kinds = pc.take(pa.array(map(judge.kind, known), pa.string()), indices)
    units = pc.take(pa.array(map(judge.unit, known), pa.string()), indices)
    return pa.table([path, told, kinds, pc.coalesce(units, path)], schema=FILES)
