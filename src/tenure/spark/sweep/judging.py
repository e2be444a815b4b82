"""Which of the listed files go: `cleanup/orphans.py`, asked once for a folder instead of once for a file.

Promise: a file goes here exactly when it is an orphan there. Sizes that the listing did not tell are asked for those
that go only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tenure.blobs.trees import Listed
from tenure.checkpoints.run_name import RUNS
from tenure.cleanup.orphans import REHEARSALS, Seen, is_orphan, orphans_in
from tenure.spark.sweep.plan import FILES, FOLDERS, LISTED

_UNIT: Final = re.compile(rf"(?:{RUNS}|{REHEARSALS})/[^/]+/[^/]+")


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


def orphans_among(rows: pa.Table, seen: Seen, *, sizes: Callable[[Sequence[str]], Sequence[int]]) -> pa.Table:
    """Those of `LISTED` that nobody needs, as rows of `FILES`. `sizes`: tells those of
    paths, where they are missing."""
    found = [_orphans_in_batch(batch, seen, sizes) for batch in rows.to_batches()]
    return pa.concat_tables(found) if found else FILES.empty_table()


def _orphans_in_batch(batch: pa.RecordBatch, seen: Seen, sizes: Callable[[Sequence[str]], Sequence[int]]) -> pa.Table:
    folders = batch.column("folder")
    known: list[str] = folders.dictionary.to_pylist()
    rulings = [orphans_in(folder, seen) for folder in known]
    maybe = pc.take(pa.array([ruling is not False for ruling in rulings], pa.bool_()), folders.indices)
    batch = batch.filter(maybe)
    folders = batch.column("folder")
    path = pc.binary_join_element_wise(folders.cast(pa.string()), batch.column("name"), "/")
    named = pc.is_in(path, value_set=pa.array(sorted(seen.named), pa.string()))
    ruling = pc.take(pa.array(rulings, pa.bool_()), folders.indices)
    by_name = ruling.is_null()
    verdicts = pa.array([is_orphan(one, seen) for one in path.filter(by_name).to_pylist()], pa.bool_())
    goes = pc.replace_with_mask(pc.and_(pc.invert(named), ruling), by_name, verdicts)
    path, indices = path.filter(goes), folders.indices.filter(goes)
    told = batch.column("size").filter(goes)
    if told.null_count == len(told):
        told = pa.array(sizes(path.to_pylist()), pa.int64())
    kinds = pc.take(pa.array([FOLDERS.get(folder.split("/", 1)[0], "") for folder in known], pa.string()), indices)
    units = pc.take(pa.array(map(_unit, known), pa.string()), indices)
    return pa.table([path, told, kinds, pc.coalesce(units, path)], schema=FILES)


def _unit(folder: str) -> str | None:
    """The run directory or rehearsal that a folder is in; None: each file is one by itself."""
    found = _UNIT.match(folder)
    return None if found is None else found[0]
