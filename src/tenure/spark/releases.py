"""The differences between the releases of Spark that Tenure runs on.

Spark 4.3 says of each operator whether it keeps state (`LogicalPlan.isStateful`); Spark 4.2 does not. So the kinds of
such operators stand here for both, and a test compares them with the classes of Spark 4.3. Where Spark looks for paths,
4.3 takes one argument more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyspark

from tenure.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELEASES: Final = ("4.2", "4.3")
"""The minor releases of Spark that Tenure is tested with."""

STATEFUL: Final = frozenset(
    {
        *("Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit", "Join"),
        *("FlatMapGroupsWithState", "FlatMapGroupsInPandasWithState"),
        *("TransformWithState", "TransformWithStateInPySpark"),
    }
)
"""The operators that keep state over a stream. A join does so only if both of its sides are streams."""


def check_release(version: str) -> None:
    """Check a version of PySpark. Raises UsageError: its release is none of `RELEASES`."""
    if ".".join(version.split(".")[:2]) not in RELEASES:
        raise UsageError(f"PySpark {version} is not supported", fix=f"install PySpark {' or '.join(RELEASES)}")


def look_for(spark: SparkSession, paths: Any, *, at_once: int) -> None:
    """Let Spark look for files, as it does before it reads them. `paths`: a Scala sequence; none is a pattern. Raises
    Spark's own errors."""
    jvm: Any = spark._jvm
    source = getattr(getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSource$"), "MODULE$")
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    arguments = [
        paths,
        configuration,
        True,  # an empty folder counts as missing
        True,  # every path must exist
        at_once,
        False,  # names are no patterns
    ]
    if not pyspark.__version__.startswith("4.2."):
        arguments.append(getattr(source, "checkAndGlobPathIfNecessary$default$7")())
    source.checkAndGlobPathIfNecessary(*arguments)


def is_stateful(node: Any) -> bool:
    """Whether a node of a logical plan keeps state between the batches of a streaming query."""
    kind = node.nodeName()
    if kind == "Join":
        return bool(node.left().isStreaming() and node.right().isStreaming())
    return kind in STATEFUL and bool(node.isStreaming())
