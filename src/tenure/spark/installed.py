"""The Spark of this machine: its folder, its release, and the entries for the path of a Python that has no PySpark.

Promise: PySpark would take the same folder: `SPARK_HOME`, else that of this Python's package `pyspark`, else
that of the `spark-submit` in PATH. This Python's own PySpark goes first; where there is none, PySpark is that of the
folder, as for spark-submit. PySpark is not imported. Not promised: that the Spark starts.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tenure.errors import UsageError
from tenure.wording import how_to_install

_HOME: Final = "SPARK_HOME"
_PATH: Final = "PYTHONPATH"
_CORE: Final = re.compile(r"spark-core_(\d+\.\d+)-(\d+\..+)\.jar")
_VERSION: Final = re.compile(r"__version__.*?[\"']([^\"']+)[\"']")


@dataclass(frozen=True, slots=True)
class InstalledSpark:
    """A Spark. `scala`: the version in the names of packages for it; where no jar says it, 2.12 for Spark 3, of which
    PyPI and most vendors have that, and else 2.13. `python_path`: where its PySpark is; empty: this Python has one."""

    home: Path
    version: str
    scala: str
    python_path: tuple[str, ...] = ()

    @property
    def release(self) -> str:
        """The minor release, such as 4.3."""
        return minor_of(self.version)

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The variables by which a process with the environment `given` imports this PySpark and starts this Spark;
        empty: it does so already."""
        if not self.python_path:
            return {}
        path = [*self.python_path, *filter(None, [given.get(_PATH)])]
        return {_HOME: str(self.home), _PATH: os.pathsep.join(path)}


def minor_of(version: str) -> str:
    """The minor release of a version."""
    return ".".join(version.split(".")[:2])


def find_spark(environment: Mapping[str, str] | None = None) -> InstalledSpark:
    """The Spark of this machine. Raises UsageError: there is none, or PySpark and Spark are of two releases."""
    given = os.environ if environment is None else environment
    package = _package()
    home = _home(given, package)
    jars = _named_by_jars(home)
    path: tuple[str, ...] = ()
    if package is None:
        path = _python_path(home)
        package = Path(path[0], "pyspark")
    elif jars is not None and minor_of(jars[1]) != minor_of(_version_in(package)):
        raise UsageError(
            f"this Python has PySpark {_version_in(package)}, and {_HOME} {str(home)!r} is Spark {jars[1]}",
            fix=f"install PySpark {minor_of(jars[1])}, or unset {_HOME}",
        )
    version = _version_in(package) if jars is None else jars[1]
    scala = ("2.12" if version.startswith("3.") else "2.13") if jars is None else jars[0]
    return InstalledSpark(home, version, scala, path)


def use_spark() -> None:
    """Let this process import PySpark, and start the Spark of this machine. Raises UsageError."""
    spark = find_spark()
    os.environ.update(spark.environment(os.environ))
    sys.path[:0] = spark.python_path


def _package() -> Path | None:
    """The folder of this Python's PySpark; None: it has none."""
    found = find_spec("pyspark")
    folders = [] if found is None else [Path(folder) for folder in found.submodule_search_locations or ()]
    return next((folder for folder in folders if (folder / "version.py").exists()), None)


def _home(given: Mapping[str, str], package: Path | None) -> Path:
    """The folder of Spark, looked for as `pyspark.find_spark_home` does. Raises UsageError."""
    named = given.get(_HOME)
    program = shutil.which("spark-submit", path=given.get("PATH"))
    if named:
        folders = [Path(named)]
    elif package is not None:
        folders = [package / "spark-distribution", package, package.parents[1]]
    else:
        folders = [] if program is None else [Path(program).resolve().parents[1]]
    home = next((folder for folder in folders if (folder / "bin" / "spark-submit").is_file()), None)
    if home is not None:
        return home
    what = f"{_HOME} {named!r} has no bin/spark-submit" if named else f"{_HOME} is not set"
    if package is None:
        what = f"the Python package 'pyspark' is not installed, and {what}"
    fix = f"set {_HOME} to the folder of Spark"
    raise UsageError(f"there is no Spark: {what}", fix=f"{fix}, or {how_to_install('spark')}")


def _named_by_jars(home: Path) -> tuple[str, str] | None:
    """The version of Scala and that of Spark, by the name of a jar; None: the vendor names the jars otherwise."""
    names = (_CORE.fullmatch(jar.name) for jar in sorted(home.glob("jars/spark-core_*.jar")))
    return next(((name[1], name[2]) for name in names if name is not None), None)


def _version_in(package: Path) -> str:
    match = _VERSION.search((package / "version.py").read_text(encoding="utf-8"))
    return "unknown" if match is None else match[1]


def _python_path(home: Path) -> tuple[str, ...]:
    """The entries of Spark's own `bin/pyspark`. Raises UsageError."""
    zips = sorted(home.glob("python/lib/py4j-*-src.zip"))
    if not zips or not (home / "python" / "pyspark" / "version.py").exists():
        raise UsageError(
            f"Spark in {str(home)!r} has no PySpark: its python/pyspark, or py4j's zip in python/lib, is not there",
            fix=how_to_install("spark"),
        )
    return (str(home / "python"), str(zips[-1]))
