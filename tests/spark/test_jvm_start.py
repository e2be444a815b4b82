"""The JVMs of tests map the archive that their options name: a JVM that cannot is slow, and says nothing."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import jvm_start

pytestmark = pytest.mark.spark

NAMES = "-XX:SharedArchiveFile="


def test_the_jvm_of_a_test_maps_the_archive(spark: SparkSession) -> None:
    options = shlex.split(os.environ.get(jvm_start.OPTIONS, ""))
    named = [option.removeprefix(NAMES) for option in options if option.startswith(NAMES)]
    if not named:
        pytest.skip("tests/run.py names the archive, if there is one")
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    assert named[-1] in Path(f"/proc/{gateway.proc.pid}/maps").read_text()
