"""Runs contenders side by side and says how they compare: what every `bench/x.py` is made with.

Promise: contenders take turns within each round, and who goes first rotates, so a machine that gets slower or
faster meanwhile hits all of them alike. Every raw figure goes to `build/bench/NAME.json` with a description of the
machine. It promises nothing about what a figure must be: a bench prints, it never asserts a time.

    report(compare("commit", {"fenced": one_fenced_commit, "plain": one_plain_commit}, rounds=200))

A contender is a function that does one piece of work and returns what it measured, mostly seconds; `timed` makes one
of a function that returns nothing.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

Contender = Callable[[], float]

RESULTS = Path(__file__).resolve().parents[1] / "build" / "bench"
PACKAGES = ("tenure", "pyspark", "deltalake", "pyarrow", "kazoo", "grpcio", "kubernetes")


@dataclass(frozen=True)
class Machine:
    """Where the figures come from. None: not installed."""

    cores: int
    memory_gib: float
    kernel: str
    python: str
    java: str | None
    packages: Mapping[str, str]

    def __str__(self) -> str:
        packages = ", ".join(f"{name} {version}" for name, version in self.packages.items())
        return (
            f"{self.cores} cores, {self.memory_gib:.0f} GiB, Linux {self.kernel}, Python {self.python}, "
            f"Java {self.java or 'none'}; {packages}"
        )


@dataclass(frozen=True)
class Summary:
    """One contender's samples in four figures; `ratio` is its median over the first contender's."""

    median: float
    p99: float
    spread: float
    """Distance from the first to the third quartile."""
    ratio: float


@dataclass(frozen=True)
class Comparison:
    """All samples of a bench, in the order in which they were taken."""

    name: str
    unit: str
    samples: Mapping[str, Sequence[float]]


def timed(work: Callable[[], object]) -> Contender:
    """A contender that measures the seconds that `work` takes."""

    def contender() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return contender


def compare(
    name: str, contenders: Mapping[str, Contender], *, rounds: int, warmup: int = 1, unit: str = "s"
) -> Comparison:
    """Let each contender run once a round. The first `warmup` rounds are run and not counted."""
    names = list(contenders)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-warmup, rounds):
        first = number % len(names)
        for contender in names[first:] + names[:first]:
            measured = contenders[contender]()
            if number >= 0:
                samples[contender].append(measured)
    return Comparison(name, unit, samples)


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that at least `percent` of them do not exceed; the largest when there are few."""
    return sorted(samples)[max(0, math.ceil(len(samples) * percent / 100) - 1)]


def summarise(comparison: Comparison) -> dict[str, Summary]:
    """Each contender's figures. Needs one sample of each at least."""
    medians = {name: statistics.median(samples) for name, samples in comparison.samples.items()}
    base = next(iter(medians.values()))
    return {
        name: Summary(
            median=medians[name],
            p99=percentile(samples, 99),
            spread=percentile(samples, 75) - percentile(samples, 25),
            ratio=medians[name] / base if base else math.nan,
        )
        for name, samples in comparison.samples.items()
    }


def describe_machine() -> Machine:
    """Asks the operating system, the Java runtime and the installed packages."""
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        memory_gib=psutil.virtual_memory().total / 2**30,
        kernel=platform.release(),
        python=platform.python_version(),
        java=_java_version(),
        packages={name: version for name in PACKAGES if (version := _package_version(name))},
    )


def _java_version() -> str | None:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return None
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    return printed.split('"')[1] if printed.count('"') > 1 else None


def _package_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def report(comparison: Comparison, *, results: Path = RESULTS, console: Console | None = None) -> Path:
    """Print the table, write the raw figures, return their file."""
    machine, summaries = describe_machine(), summarise(comparison)
    rounds = len(next(iter(comparison.samples.values())))
    table = Table(title=f"{comparison.name}: {rounds} rounds, side by side", caption=str(machine))
    table.add_column("contender")
    for heading in ("median", "p99", "spread"):
        table.add_column(f"{heading} ({comparison.unit})", justify="right")
    table.add_column("ratio", justify="right")
    for name, summary in summaries.items():
        figures = (summary.median, summary.p99, summary.spread, summary.ratio)
        table.add_row(name, *(f"{figure:.4g}" for figure in figures))
    (console or Console()).print(table)
    results.mkdir(parents=True, exist_ok=True)
    file = results / f"{comparison.name}.json"
    content = {
        "machine": asdict(machine),
        "summaries": {name: asdict(summary) for name, summary in summaries.items()},
        **asdict(comparison),
    }
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return file
