"""The jars of the connectors, which `scripts/setup.sh connectors` fetches once, for members of tests.

Promise: spark-submit finds every package of these connectors in the folder, and asks no network.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Final

import pyspark

from tenure.spark.connectors import connectors_of, module_of, releases_of, with_connectors
from tenure.spark.installed import minor_of
from tests.kit.servers.programs import need

FETCHED: Final = ("kafka", "s3")
"""The connectors that tests and the demo use. Plain jobs of tests use `delta`, too, where the release has it."""


def ivy_folder() -> Path:
    """The folder for Spark's setting `spark.jars.ivy`. Raises NotInstalled: a connector's jar is not there."""
    missing = missing_jars()
    return need(
        None if missing else _folder(),
        f"the jar {missing[0]}" if missing else "",
        fix="fetch it: sh scripts/setup.sh connectors, or set TENURE_TEST_CONNECTORS to a folder for spark.jars.ivy",
    )


def missing_jars() -> list[str]:
    """The jars that are not in the folder."""
    wanted = [package for connector in connectors_of(_names()) for package in connector.packages]
    names = [f"{module_of(package).replace(':', '_')}-{package.split(':')[2]}.jar" for package in wanted]
    return [name for name in names if not (_folder() / "jars" / name).exists()]


def _names() -> tuple[str, ...]:
    return (*FETCHED, "delta") if minor_of(pyspark.__version__) in releases_of("delta") else FETCHED


def _folder() -> Path:
    """A release that is beside the installed one, in the folder `spark-3.5`, has a folder of its own, too."""
    _, beside, release = Path(pyspark.__file__).resolve().parents[1].name.partition("spark-")
    return Path(os.environ.get("TENURE_TEST_CONNECTORS") or Path(sys.prefix, f"connectors{beside and '-'}{release}"))


if __name__ == "__main__":  # for setup.sh: the flags of a spark-submit that fetches the missing jars; empty: none
    words = [word for pair in with_connectors([], [], connectors_of(_names())) for word in pair if word]
    sys.stdout.write(shlex.join(words) if missing_jars() else "")
