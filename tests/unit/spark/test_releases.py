"""The releases of Spark that Tenure runs on, and what differs between them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pyspark
import pytest

from tenure.errors import UsageError
from tenure.spark.connectors import NAMES
from tenure.spark.coordinates import OF_RELEASE
from tenure.spark.releases import RELEASES, STATEFUL, check_release

OPERATORS = "org/apache/spark/sql/catalyst/plans/logical/"


def test_the_table_has_each_operator_of_which_spark_says_that_it_keeps_state() -> None:
    """Spark 4.3 overrides `isStateful` in them."""
    (jar,) = Path(pyspark.__file__).parent.glob("jars/spark-catalyst_*.jar")
    with zipfile.ZipFile(jar) as classes:
        names = [name for name in classes.namelist() if name.startswith(OPERATORS) and name.endswith(".class")]
        found = {Path(name).stem for name in names if b"isStateful" in classes.read(name)}
    assert found == {*STATEFUL, "LogicalPlan"}


@pytest.mark.parametrize("version", ["4.2.0", "4.2.1", "4.3.0", "4.3.0.dev0", "4.3.0-amzn-1"])
def test_a_tested_release_is_accepted(version: str) -> None:
    check_release(version)


@pytest.mark.parametrize("version", ["3.5.8", "4.1.1", "4.4.0", "4.20.0", "5.0.0"])
def test_another_release_is_refused_in_one_line(version: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_release(version)
    assert str(refused.value) == f"PySpark {version} is not supported; install PySpark 4.2 or 4.3"


def test_each_release_has_a_line_for_each_connector() -> None:
    assert set(RELEASES) <= {release for release, _ in OF_RELEASE}
    assert all(tuple(known) == NAMES for known in OF_RELEASE.values())
