"""How long a takeover asks whether the input files of the batch that it runs again are there, as a local disk has them.

Beside it, in the same run: Python's `os.stat` of each, one after the other, which is the least that anybody needs. And
the same with one file gone, which is asked for by halves until it has a name. Seconds of each round, and the ratios of
their medians, go to `build/bench/input_files.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console

from bench.harness import RESULTS, describe_machine
from tenure.takeover.input_files import missing_files


def seconds(what: Callable[[], object]) -> float:
    """How long one call took."""
    began = time.monotonic()
    what()
    return round(time.monotonic() - began, 3)


def make_files(folder: Path, count: int) -> list[str]:
    """So many small files, a thousand to a folder; their URLs."""
    urls = []
    for first in range(0, count, 1000):
        below = folder / f"{first:09d}"
        below.mkdir()
        for number in range(first, min(first + 1000, count)):
            path = below / f"{number:09d}.json"
            path.write_text("{}\n")
            urls.append(f"file://{path}")
    return urls


def measure(spark: SparkSession, folder: Path, *, files: int, rounds: int) -> dict[str, Any]:
    """Seconds of each round."""
    urls = make_files(folder, files)
    missing_files(spark, urls[:1000])  # classes are loaded
    raw: dict[str, list[float]] = {"asked": [], "os.stat": [], "one gone": []}
    gone = Path(urls[files // 3].removeprefix("file://"))
    for _ in range(rounds):
        raw["asked"].append(seconds(lambda: missing_files(spark, urls)))
        raw["os.stat"].append(seconds(lambda: [os.stat(url.removeprefix("file://")) for url in urls]))
        gone.unlink()
        raw["one gone"].append(seconds(lambda: missing_files(spark, urls)))
        gone.write_text("{}\n")
    medians = {name: statistics.median(values) for name, values in raw.items()}
    ratios = {name: round(medians[name] / medians["asked"], 3) for name in raw}
    return {"files": files, "medians_s": medians, "beside asked": ratios, "raw_s": raw}


def main(arguments: list[str]) -> int:
    """Measure, print the figures, and keep them."""
    parser = argparse.ArgumentParser(prog="bench.input_files", description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(arguments)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = measure(spark, Path(folder), files=given.files, rounds=given.rounds)
    finally:
        spark.stop()
    Console().print_json(data=found)
    RESULTS.mkdir(parents=True, exist_ok=True)
    record = {"machine": asdict(describe_machine()), **found}
    (RESULTS / "input_files.json").write_text(json.dumps(record, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
