"""The releases of Spark that Tenure runs on, and all differences between them.

Promise: no other module of the product compares versions of Spark, or names a class, a package or a method of Spark
that is not in every release. Our Java sources are written for the newest release; a few of their words are replaced for
older releases. The tables here are compared with the jars of each release by a test. The coordinates of connectors are
in `coordinates.py`, which imports no PySpark.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

import pyspark

from tenure.errors import UsageError
from tenure.spark.installed import minor_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# --- Which releases, and what they run on -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunsOn:
    """The first and the last version of Python, and of Java, with which a release of Spark runs."""

    python: tuple[tuple[int, int], tuple[int, int]]
    java: tuple[int, int | None]
    """None: no newest version is known with which it fails."""

    @property
    def javas(self) -> str:
        """The versions of Java, for people."""
        first, last = self.java
        return f"Java {first} or newer" if last is None else f"Java {first} to {last}"


RUNS_ON: Final[Mapping[str, RunsOn]] = {
    "3.5": RunsOn(python=((3, 8), (3, 11)), java=(8, 17)),
    "4.0": RunsOn(python=((3, 9), (3, 13)), java=(17, 21)),
    "4.1": RunsOn(python=((3, 10), (3, 14)), java=(17, 21)),
    "4.2": RunsOn(python=((3, 10), (3, 14)), java=(17, None)),
    "4.3": RunsOn(python=((3, 11), (3, 14)), java=(17, None)),
}
"""The minor releases of Spark that Tenure is tested with, and what each runs on. The Python is that of PySpark's own
package; on Java 24 and newer, Hadoop before 3.5 fails."""

RELEASES: Final = tuple(RUNS_ON)
IN_WORDS: Final = f"{', '.join(RELEASES[:-1])} or {RELEASES[-1]}"
"""The releases, for people."""


def installed() -> str:
    """The version of the PySpark that this process has imported."""
    return pyspark.__version__


def check_release(version: str | None = None, *, python: tuple[int, int] = sys.version_info[:2]) -> None:
    """Check a version of PySpark, and whether it runs on a Python; None: the installed version. Raises UsageError."""
    version = version or installed()
    minor = minor_of(version)
    if minor not in RUNS_ON:
        raise UsageError(f"PySpark {version} is not supported", fix=f"install PySpark {IN_WORDS}")
    first, last = RUNS_ON[minor].python
    if not first <= python <= last:
        fitting = [release for release, on in RUNS_ON.items() if on.python[0] <= python <= on.python[1]]
        raise UsageError(
            f"PySpark {version} runs on Python {_dotted(first)} to {_dotted(last)}, and this is {_dotted(python)}",
            fix=f"install PySpark {' or '.join(fitting)}, or use another Python" if fitting else "use another Python",
        )


def check_java(spark: SparkSession) -> None:
    """Check that the installed release of Spark runs on the Java of a session. Raises UsageError."""
    jvm: Any = spark._jvm
    major = int(str(jvm.java.lang.System.getProperty("java.specification.version")).removeprefix("1."))
    check_java_version(major, version=installed())


def check_java_version(major: int, *, version: str) -> None:
    """Check that a supported version of PySpark runs on a Java. Raises UsageError."""
    on = RUNS_ON[minor_of(version)]
    first, last = on.java
    if major < first or (last is not None and major > last):
        raise UsageError(
            f"PySpark {version} runs on {on.javas}, and this is Java {major}", fix=f"set JAVA_HOME to {on.javas}"
        )


def aws_sdk(spark: SparkSession) -> int:
    """The major version of AWS' SDK that Hadoop's client of S3 has been built with. A vendor's Spark may have another
    Hadoop than Spark's own."""
    jvm: Any = spark._jvm
    return 1 if before("3.4", str(jvm.org.apache.hadoop.util.VersionInfo.getVersion())) else 2


def before(release: str, version: str | None = None) -> bool:
    """Whether a version is older than a release. `version` None: that of the installed Spark."""
    wanted = tuple(map(int, release.split(".")))
    return tuple(map(int, re.findall(r"\d+", version or installed())[: len(wanted)])) < wanted


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


# --- Java: our sources, and names of classes ----------------------------------------------------------------------

_WORDS: Final = (
    ("4.2", "load(version, named, true, false)", "load(version, named, true)"),  # of RocksDB
    ("4.1", ".execution.streaming.checkpointing.", ".execution.streaming."),
    ("4.1", '"tenure-replay", false, true, 0, none, none)', '"tenure-replay", false, true, 0)'),  # of RocksDB
    # The thread that loads a store holds it until it rolls back, and a snapshot is closed by another thread.
    (
        "4.1",
        "made.snapshot = ((Option) found._1()).get();",
        "made.snapshot = ((Option) found._1()).get(); store.rollback();",
    ),
    ("4.0", "scala.collection.immutable.Seq ", "scala.collection.Seq "),  # in Scala 2.12, a Seq is any sequence
)
"""The release in which words of our Java sources came, the words, and the words before."""


def in_its_words(text: str) -> str:
    """A source of ours, or the name of a class of Spark, as the installed Spark has it."""
    for release, newer, older in _WORDS:
        if before(release):
            text = text.replace(newer, older)
    return text


def own_sources(sources: Sequence[str]) -> Sequence[str]:
    """The sources of ours that the installed Spark can use: before 4.0, no state file has an id."""
    return [source for source in sources if not (before("4.0") and source == "ReplayedState.java")]


CHECKPOINTS_BY_FILE_SYSTEM: Final = in_its_words(
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""Spark's default on a local disk takes another way through Hadoop, which accepts no class of ours. The default makes
the second writer of a checkpoint file fail; a run directory has one writer."""

# --- Settings -----------------------------------------------------------------------------------------------------

_STATE_FORMAT: Final = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_SINCE: Final[Mapping[str, str]] = {
    _STATE_FORMAT: "4.0",
}
"""Settings that older releases do not know: the release in which each came."""


def known_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Of these settings those that the installed release knows."""
    return {name: value for name, value in settings.items() if not before(_SINCE.get(name, "0.0"))}


# --- Python and the gateway ---------------------------------------------------------------------------------------


def logger_of(name: str) -> logging.Logger:
    """PySpark's own logger of a name; before 4.0 it had none."""
    if before("4.0"):
        return logging.getLogger(name)
    from pyspark.logger import PySparkLogger

    return PySparkLogger.getLogger(name)


def sequence_of(jvm: Any, array: Any) -> Any:
    """A Scala sequence of a Java array, without a copy. Scala 2.12 has no immutable one."""
    if before("4.0"):
        return jvm.scala.Predef.genericWrapArray(array)
    return jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(array)


def description_of(error: Any) -> str | None:
    """What an error of Spark's says, without asking the JVM; None: an error of PySpark alone."""
    found = getattr(error, "desc" if before("4.0") else "_desc", None)
    return found if isinstance(found, str) else None


def condition_of(error: Any) -> str | None:
    """The error class of an error of Spark's: its name since 4.0 is `condition`."""
    found: str | None = error.getErrorClass() if before("4.0") else error.getCondition()
    return found


# --- Plans and operators ------------------------------------------------------------------------------------------

STATEFUL: Final = frozenset(
    {
        *("Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit", "Join"),
        *("FlatMapGroupsWithState", "FlatMapGroupsInPandasWithState"),
        *("TransformWithState", "TransformWithStateInPySpark", "TransformWithStateInPandas"),
    }
)
"""The operators that keep state over a stream, of all releases: only 4.3 says it of each (`LogicalPlan.isStateful`). A
join does so only if both of its sides are streams."""


_NAMES_NOW: Final[Mapping[str, str]] = {
    "TransformWithStateInPandas": "TransformWithStateInPySpark",
    "TimeAdd": "TimestampAddInterval",
}
"""Operators and expressions that were renamed in 4.1."""

TRANSFORM_IN_PYTHON: Final = "TransformWithStateInPySpark"


def name_now(kind: str) -> str:
    """The name that an operator or an expression has in the newest release."""
    return _NAMES_NOW.get(kind, kind)


def nodes_now(nodes: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The nodes of an expression, with the gaps of session windows alike in all releases: 3.5 parses the text that is
    cast to an interval, and shows the interval in words of its own."""
    casts = [node["class"].endswith(".Cast") and node["dataType"] == "interval" for node in nodes]
    return [
        {**node, "dataType": "interval", "value": interval(node["value"])}
        if is_cast and node["class"].endswith(".Literal") and isinstance(node["value"], str)
        else node
        for node, is_cast in zip(nodes, [False, *casts], strict=False)
    ]


_MONTHS: Final[Mapping[str, int]] = {"month": 1, "year": 12}
_DAYS: Final[Mapping[str, int]] = {"day": 1, "week": 7}
_MICROSECONDS: Final[Mapping[str, int]] = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
}
_PART: Final = re.compile(r"\s*(?P<number>[+-]?\d*\.?\d+)\s+(?P<unit>[a-z]+?)s?(?=\s|\Z)")


def interval(text: str) -> str:
    """The text of an interval in three units, each of which Spark keeps apart; a text that is none stays."""
    rest = text.strip().casefold().removeprefix("interval ")
    sums = [Decimal(0), Decimal(0), Decimal(0)]
    while (part := _PART.match(rest)) is not None:
        for place, units in enumerate((_MONTHS, _DAYS, _MICROSECONDS)):
            sums[place] += Decimal(part["number"]) * units.get(part["unit"], 0)
        if not any(part["unit"] in units for units in (_MONTHS, _DAYS, _MICROSECONDS)):
            return text
        rest = rest[part.end() :]
    months, days, microseconds = map(int, sums)
    return text if rest.strip() or not text.strip() else f"{months} months {days} days {microseconds} microseconds"


_ARITHMETIC: Final = frozenset(
    {"Add", "Subtract", "Multiply", "Divide", "IntegralDivide", "Remainder", "Pmod", "Sum", "Average"}
)


def field_now(kind: str, field: str) -> str:
    """The name that a field of an expression has in the newest release. `kind`: of the expression."""
    return "evalContext" if before("4.1") and field == "evalMode" and kind in _ARITHMETIC else field


def active_sessions(rows: DataFrame) -> Any:
    """The class of Spark that knows the active session of a thread."""
    sql: Any = rows.sparkSession._jvm.org.apache.spark.sql  # type: ignore[union-attr] # it has one
    return sql.SparkSession if before("4.0") else sql.classic.SparkSession


def look_for(spark: SparkSession, paths: Any, *, at_once: int) -> None:
    """Let Spark look for files, as it does before it reads them. `paths`: a Scala sequence. None is taken for a
    pattern, and Spark leaves out a path that looks like a pattern. Raises Spark's own errors."""
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
    if not before("4.3"):
        arguments.append(getattr(source, "checkAndGlobPathIfNecessary$default$7")())
    source.checkAndGlobPathIfNecessary(*arguments)


_WITHOUT_FLOATS: Final = 26
"""The release of pyarrow whose batches are cut at whole numbers only."""


def refuse_arrow(kind: str, *, version: Callable[[str], str] = metadata.version) -> None:
    """Raise UsageError for an operator that would fail in each batch with the installed pyarrow: the workers of PySpark
    3.5 cut batches at floats for `applyInPandasWithState`."""
    if kind != "FlatMapGroupsInPandasWithState" or not before("4.0"):
        return
    arrow = version("pyarrow")
    if int(arrow.partition(".")[0]) >= _WITHOUT_FLOATS:
        raise UsageError(
            f"applyInPandasWithState of PySpark {installed()} fails with pyarrow {arrow}",
            fix=f"pip install 'pyarrow<{_WITHOUT_FLOATS}'",
        )


def settings_to_go_on(state_format: Callable[[], int | None]) -> Mapping[str, str]:
    """The settings with which a query starts on its run directory. `state_format`: of the state there, 1 or 2; None: no
    batch is done. Spark 4.0 and 4.1 read no entry of another format than their own in the log of done batches. Newer
    releases keep to the format of a query by themselves."""
    if before("4.0") or not before("4.2") or state_format() != 1:
        return {}
    return {_STATE_FORMAT: "1"}


READS_NO_METADATA_OF_4_0: Final = not before("4.1")
"""Whether a snapshot of RocksDB that Spark 4.0 wrote in checkpoint format 2 has to be changed before it is read."""

KAFKA_COUNTS_UNASKED: Final = before("4.2") and not before("4.1")
"""Whether Spark's source of Kafka counts after each batch how far the query is behind, though it has not asked for the
newest offsets. It asks before it plans a batch. After a batch that was planned before the query's start, it counts with
nothing, and the query ends (SPARK-57438; the newest connector that was there to try is 4.1.1)."""


def is_stateful(node: Any) -> bool:
    """Whether a node of a logical plan keeps state between the batches of a streaming query."""
    kind = node.nodeName()
    if kind == "Join":
        return bool(node.left().isStreaming() and node.right().isStreaming())
    return kind in STATEFUL and bool(node.isStreaming())


def source_name(leaf: Any) -> str | None:
    """The name by which Spark knows a source of a streaming plan; None: by its position, as all sources before 4.2."""
    if before("4.2"):
        return None
    name = leaf.sourceIdentifyingName().nameOpt()
    return str(name.get()) if name.isDefined() else None
