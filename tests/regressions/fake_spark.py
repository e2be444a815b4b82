"""A `spark-submit` that starts no JVM: it notes its arguments, and does what a test's shell script says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

NOTE = """
printf '%s\\n' "$@" > "$0.arguments"
echo "$*" >> "$0.starts"
args="$*"
while [ $# -gt 0 ]; do [ "$1" = --properties-file ] && cp -p "$2" "$0.properties"; shift; done
"""


class FakeSpark:
    """In the place of Spark's folder, for as long as the test lasts."""

    def __init__(self, folder: Path, script: str, patch: pytest.MonkeyPatch) -> None:
        """`script`: what follows the note, such as `exit 1`."""
        self._program = folder / "spark" / "bin" / "spark-submit"
        self._program.parent.mkdir(parents=True)
        self._program.write_text(f"#!/bin/sh\n{NOTE}{script}\n")
        self._program.chmod(0o755)
        patch.setenv("SPARK_HOME", str(folder / "spark"))
        patch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # As in a process without a JVM: other tests of this process may have one.
        for name in ("_gateway", "_jvm", "_active_spark_context"):
            patch.setattr(SparkContext, name, None)
        patch.setattr(SparkSession, "_instantiatedSession", None)

    @property
    def arguments(self) -> list[str]:
        """Of the last start."""
        return Path(f"{self._program}.arguments").read_text(encoding="utf-8").splitlines()

    @property
    def starts(self) -> list[str]:
        """The arguments of each start, joined by blanks."""
        return Path(f"{self._program}.starts").read_text(encoding="utf-8").splitlines()

    @property
    def properties(self) -> Path:
        """A copy of the file of properties that the last start was given."""
        return Path(f"{self._program}.properties")
