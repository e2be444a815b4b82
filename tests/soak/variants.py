"""Which product the members run: this tree's, another package, or a copy without one of its protections; and how their
JVMs start.

Promise: `environment` has shown, in a process of its own, that members will import that very package.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.house.tree import ROOT
from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import PACKAGE, apply

JVM_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""No JVM lives for longer than minutes here."""

_WARM_UP: Final = """
import sys
from pyspark.sql import SparkSession, functions as fn
rocks = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.shuffle.partitions", "1")
spark = builder.config("spark.sql.streaming.stateStore.providerClass", rocks).getOrCreate()
folder = sys.argv[1]
rows = spark.readStream.schema("id long, at timestamp").json(folder + "/in")
counts = rows.withWatermark("at", "10 seconds").groupBy(fn.window("at", "20 seconds")).count()
def write(batch, number):
    batch.write.mode("overwrite").parquet(folder + "/out")
writer = counts.writeStream.option("checkpointLocation", folder + "/checkpoint").foreachBatch(write)
writer.trigger(availableNow=True).start().awaitTermination()
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


class VariantError(Exception):
    """The package that was asked for cannot be run."""


@contextmanager
def package_of(*, without: str | None, package: Path | None) -> Iterator[Path]:
    """The folder that holds the package `tenure` to run: of a copy without what the mutant takes away, the one that
    was named, or this tree's. Raises VariantError, DoesNotApply."""
    if without is None:
        yield PACKAGE.parent if package is None else _holder(package)
        return
    known = {mutant.name: mutant for mutant in MUTANTS}
    if without not in known:
        raise VariantError(f"no mutant is named {without!r}; there are: {', '.join(known)}")
    source = PACKAGE if package is None else _holder(package) / "tenure"
    with TemporaryDirectory(prefix="tenure-soak-") as folder:
        copy = Path(folder) / "tenure"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for path, text in apply(known[without], copy).items():
            path.write_text(text, encoding="utf-8")
        yield copy.parent


def _holder(package: Path) -> Path:
    """The folder above `tenure`, whichever of the two was named, or a checkout."""
    for holder in (package, package.parent, package / "src"):
        if (holder / "tenure" / "__init__.py").is_file():
            return holder.resolve()
    raise VariantError(f"{package} holds no package `tenure`")


def environment(holder: Path, *, archive: Path | None) -> dict[str, str]:
    """What members get beside this process's environment, to import the package in this folder. Raises VariantError."""
    options = os.environ.get("SPARK_SUBMIT_OPTS", JVM_OPTIONS)
    if archive is not None:
        options += f" -XX:SharedArchiveFile={shlex.quote(str(archive))} -Xlog:cds=off -Xlog:cds+dynamic=off"
    found = {"PYTHONPATH": f"{holder}{os.pathsep}{ROOT}", "SPARK_SUBMIT_OPTS": options}
    asked = [sys.executable, "-c", "import tenure; print(tenure.__file__)"]
    run = subprocess.run(asked, env={**os.environ, **found}, capture_output=True, text=True, check=False)
    if Path(run.stdout.strip()).parent != holder / "tenure":
        raise VariantError(f"members would not run {holder}/tenure, but {run.stdout.strip() or run.stderr.strip()}")
    return found


def class_archive(folder: Path) -> Path | None:
    """An archive of the classes that Spark loads, which JVMs map instead of reading and checking each: it saves two
    fifths of the processor time of a start. Made once, in a minute; None: it cannot be made."""
    options = os.environ.get("SPARK_SUBMIT_OPTS", JVM_OPTIONS)
    path = folder / f"spark-{_key({'options': options, 'java': _java_version(), 'python': sys.executable})}.jsa"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="tenure-soak-") as place:
        (Path(place) / "in").mkdir()
        (Path(place) / "in" / "a.json").write_text('{"id": 1, "at": "2026-01-01T00:00:00"}\n')
        made = Path(place) / "classes.jsa"
        env = {**os.environ, "SPARK_SUBMIT_OPTS": f"{options} -XX:ArchiveClassesAtExit={made}"}
        subprocess.run([sys.executable, "-c", _WARM_UP, place], env=env, capture_output=True, check=False, cwd=place)
        if not made.exists():
            return None
        shutil.move(made, path)
    return path


def _java_version() -> str:
    java = Path(os.environ.get("JAVA_HOME", "/usr")) / "bin" / "java"
    return subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr


def _key(facts: Mapping[str, str]) -> str:
    return hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:12]
