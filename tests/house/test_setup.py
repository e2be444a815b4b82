"""What `scripts/setup.sh` fetches, on a machine that has nothing else in its PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.house import tree


@pytest.mark.long  # it fetches 60 MB
def test_hadoop_is_fetched_where_no_python_in_the_path_has_pyspark(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(tree.ROOT / "scripts" / "setup.sh", tmp_path / "scripts")
    (tmp_path / "tests").symlink_to(tree.ROOT / "tests")
    (tmp_path / ".venv").mkdir()
    for made in ("bin", "lib", "pyvenv.cfg", "java-home"):
        (tmp_path / ".venv" / made).symlink_to(tree.ROOT / ".venv" / made)

    done = subprocess.run(
        ["sh", "scripts/setup.sh", "hdfs"],
        cwd=tmp_path,
        env=os.environ | {"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert list((tmp_path / ".venv" / "hdfs" / "jars").glob("*hadoop-client-minicluster-*.jar")), done.stderr
