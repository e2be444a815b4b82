"""The differences between two checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.source import ANOTHER, FILES, KAFKA
from tenure.operate.checkpoint_diff import differences

KINDS = {"0": FILES, "1": KAFKA, "2": ANOTHER}


def plan(batch: int, *, log: int, kafka: dict[str, int], other: str, watermark: int = 0) -> Checkpoint:
    head = {"batchWatermarkMs": watermark, "batchTimestampMs": batch, "conf": {"spark.sql.shuffle.partitions": "2"}}
    lines = ["v1", json.dumps(head), json.dumps({"logOffset": log}), json.dumps({"t": kafka}), other]
    return Checkpoint("copy", "id", batch, "\n".join(lines), "runs/a", 1, "monday", kinds=KINDS)


FIRST = plan(7, log=4, kafka={"0": 10, "1": 5}, other='{"password":"hidden-1"}')
SECOND = plan(9, log=6, kafka={"0": 13, "1": 5, "2": 2}, other='{"password":"hidden-2"}', watermark=1_700_000_000_000)


def files(folder: str, after: int, last: int) -> str:
    return f"{last - after} files of {folder}"


def test_what_differs_and_the_input_between() -> None:
    found = {one.what: (one.first, one.second, one.between) for one in differences(FIRST, SECOND, files=files)}
    other = found.pop("source 2 (another)")
    assert other[0].startswith("fingerprint ")
    assert other[0] != other[1]
    assert found == {
        "batch": ("7", "9", "2 batches"),
        "watermark": ("", "2023-11-14T22:13:20.000+00:00", ""),
        "source 0 (files)": ("log entry 4", "log entry 6", "2 files of 0"),
        "source 1 (kafka) t-0": ("10", "13", "3 offsets"),
        "source 1 (kafka) t-2": ("0", "2", "2 offsets"),
    }


def test_no_offset_of_another_source_is_shown() -> None:
    assert "hidden" not in repr(differences(FIRST, SECOND, files=files))


def test_fields_and_settings() -> None:
    changed = SECOND.offsets.replace('partitions": "2"', 'partitions": "4"')
    other = replace(SECOND, offsets=changed, epoch=3, run_directory="runs/b", query_id="other")
    found = {one.what: (one.first, one.second) for one in differences(SECOND, other, files=files)}
    assert found.pop("batch") == ("9", "9")
    assert found == {
        "epoch": ("1", "3"),
        "run_directory": ("runs/a", "runs/b"),
        "query_id": ("id", "other"),
        "spark.sql.shuffle.partitions": ("2", "4"),
    }
