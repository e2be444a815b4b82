"""A JVM that was killed before its driver was ready was a failed query (exit code 8), or a fault of the pipeline's file
(exit code 7): a member that nobody may start again before something is mended. It showed in a soak, once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.support import COPY, HEAD
from tests.draw import QUARTERS, only_if_drawn
from tests.kit.members import MAIN

pytestmark = only_if_drawn(QUARTERS[1])


DIED = 9

KILL = """
from tenure.{room} import {module}
_inner = {module}.{function}

def _kill(spark):
    spark.sparkContext._gateway.proc.kill()
    return _inner(spark)

{module}.{function} = _kill
"""
IN_THE_FUNCTION = f"job.spark.sparkContext._gateway.proc.kill()\n    {COPY}"


@pytest.mark.parametrize(
    ("before", "body", "when"),
    [
        (KILL.format(room="spark", module="session", function="_judge_defaults"), COPY, " while Spark started"),
        (KILL.format(room="driver", module="spark_driver", function="use_own_classes"), COPY, ""),
        ("", IN_THE_FUNCTION, ""),
    ],
    ids=["while Spark starts", "while it takes our classes", "in the pipeline's function"],
)
def test_a_jvm_that_is_killed_early_is_a_driver_that_died(tmp_path: Path, before: str, body: str, when: str) -> None:
    file = tmp_path / "early.py"
    file.write_text(f"{before}{HEAD}    {body}\n")
    words = ["run", str(file), "--store", f"sqlite://{tmp_path}/ha.db", "--storage", f"file://{tmp_path}/storage"]
    words += ["--param", f"input={tmp_path}", "--param", f"output={tmp_path}/output"]
    done = subprocess.run([*MAIN, *words], capture_output=True, text=True, check=False)
    assert f"tenure: error: Spark's JVM ended with exit code -9{when}; see " in done.stderr, done.stderr
    assert done.returncode == DIED
