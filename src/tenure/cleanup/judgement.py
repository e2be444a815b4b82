"""Decides by columns of listed files which files go: `verdicts` (`engine.py`), 2.4 times as fast in folders of 4 files,
5.5 times in folders of 100. Agents judge by rows, as they have no pyarrow.

Promise: a file goes exactly when `verdicts` says so. Sizes that the listing lacks are asked for the files that go only,
or for none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tenure.cleanup.engine import Rule
from tenure.cleanup.plan import row_at
from tenure.cleanup.sweep_plan import FILES, LISTED
from tenure.storage.storage import Listed


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


def orphans_among(rows: pa.Table, rule: Rule, *, sizes: Sizes | None) -> pa.Table:
    """The rows of `LISTED` that nobody needs, as rows of `FILES`. `sizes`: asks for missing sizes; None: they stay
    null."""
    found = [_orphans_in_batch(batch, rule, sizes) for batch in rows.to_batches()]
    return pa.concat_tables(found) if found else FILES.empty_table()


def _orphans_in_batch(batch: pa.RecordBatch, rule: Rule, sizes: Sizes | None) -> pa.Table:
    folders = batch.column("folder")
    known: list[str] = folders.dictionary.to_pylist()
    rulings = rule.of_folders(known)
    maybe = pc.take(pa.array([ruling is not False for ruling in rulings], pa.bool_()), folders.indices)
    batch = batch.filter(maybe)
    folders = batch.column("folder")
    path = pc.binary_join_element_wise(folders.cast(pa.string()), batch.column("name"), "/")
    named = pc.is_in(path, value_set=pa.array(sorted(rule.named), pa.string()))
    ruling = pc.take(pa.array(rulings, pa.bool_()), folders.indices)
    by_name = ruling.is_null()
    by_path = pa.array(rule.of_paths(path.filter(by_name).to_pylist()), pa.bool_())
    goes = pc.and_(pc.invert(named), pc.replace_with_mask(ruling, by_name, by_path))
    path, indices = path.filter(goes), folders.indices.filter(goes)
    size = batch.column("size").filter(goes)
    if sizes is not None and 0 < size.null_count == len(size):
        size = pa.array(sizes(path.to_pylist()), pa.int64())
    kinds = pc.take(pa.array(map(row_at, known), pa.string()), indices)
    units = pc.take(pa.array(map(rule.unit, known), pa.string()), indices)
    return pa.table([path, size, kinds, pc.coalesce(units, path)], schema=FILES)
