"""The installed PySpark, beside another release that stands before it in the path: `make test-other-spark`."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pyspark
import pytest


def path_to_installed() -> list[str]:
    """The path of a process that shall have the installed release. Skips where it is the only one."""
    here, installed = Path(pyspark.__file__).resolve().parents[1], Path(sysconfig.get_path("purelib")).resolve()
    if here == installed:
        pytest.skip("one release of Spark is here; make test-other-spark has two")
    return [entry for entry in sys.path if Path(entry).resolve() != here]
