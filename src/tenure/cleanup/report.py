"""The figures of a plan: the files to remove, and the outcomes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tenure.cleanup.sweep_plan import SweepPlan
from tenure.storage.storage import FAILED, GONE, REMOVED


def summary(plan: SweepPlan, *, shown: int) -> dict[str, Any]:
    """`about`: the plan; `kinds`: files, bytes (None: not known) and outcomes by kind; `failures`: the first `shown`
    files that could not be removed, with the reason. One part of the plan is in memory at a time.

    Raises UsageError, StorageError.
    """
    kinds: dict[str, dict[str, Any]] = {}
    failures: list[dict[str, str]] = []
    reported = set(plan.reported())
    for name in plan.parts():
        files = plan.read("files", name)
        for row in _grouped(files, "kind").aggregate([("path", "count"), ("size", "sum")]).to_pylist():
            kind = kinds.setdefault(
                row["kind"], {"kind": row["kind"], "files": 0, "bytes": 0, REMOVED: 0, GONE: 0, FAILED: 0}
            )
            kind["files"] += row["path_count"]
            kind["bytes"] += row["size_sum"] or 0
        if name not in reported:
            continue
        outcomes = plan.read("report", name).append_column("kind", files["kind"])
        for row in _grouped(outcomes, "kind", "outcome").aggregate([("path", "count")]).to_pylist():
            kinds[row["kind"]][row["outcome"]] += row["path_count"]
        if len(failures) < shown:
            failed = outcomes.filter(pc.equal(outcomes["outcome"], FAILED)).select(["path", "why"])
            failures += failed.slice(0, shown - len(failures)).to_pylist()
    about = asdict(plan.about())
    if about["bytes"] is None:
        for kind in kinds.values():
            kind["bytes"] = None
    return {"about": about, "kinds": [kinds[kind] for kind in sorted(kinds)], "failures": failures}


def _grouped(rows: pa.Table, *columns: str) -> pa.TableGroupBy:
    """Without threads: see `SweepPlan.read`."""
    return rows.group_by(list(columns), use_threads=False)
