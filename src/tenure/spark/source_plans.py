"""The sources of a streaming query, by Spark's analysed plan.

Promise: each streaming leaf of the plan is one source, in the order of the lines of Spark's offsets, with the folder
that Spark gives it: its number by the first place in the plan, or its name where Spark knows sources by name. No data
of a stream is read, and no query is started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from py4j.java_gateway import is_instance_of
from pyspark.sql import DataFrame

from tenure.checkpoints.source import ANOTHER, FILES, KAFKA, RATE, Source, in_words
from tenure.spark.releases import source_name

_V1: Final = "StreamingRelation"
_V2: Final = "StreamingRelationV2"
_REFERENCE: Final = "CTERelationRef"
"""A reading of a `WITH` clause, whose own sources stand elsewhere in the plan, once."""
_KAFKA: Final = "org.apache.spark.sql.kafka010."
_RATE: Final = "org.apache.spark.sql.execution.streaming.sources.RateStreamProvider"
_FILE_FORMAT: Final = "org.apache.spark.sql.execution.datasources.FileFormat"
_OWN_STREAM: Final = "org.apache.spark.sql.sources.StreamSourceProvider"
"""A format of files with this interface makes its stream itself."""
_SHORT: Final = "org.apache.spark.sql.sources.DataSourceRegister"


def streaming_leaves(rows: DataFrame) -> list[tuple[str, Any]]:
    """The streaming leaves of a query's plan, each with its folder. A source that is read twice comes twice."""
    leaves = rows._jdf.queryExecution().analyzed().collectLeaves()
    distinct: list[Any] = []
    found = []
    for leaf in (leaves.apply(index) for index in range(leaves.size())):
        if not leaf.isStreaming() or leaf.nodeName() == _REFERENCE:
            continue
        number = next((number for number, earlier in enumerate(distinct) if earlier.equals(leaf)), len(distinct))
        if number == len(distinct):
            distinct.append(leaf)
        named = source_name(leaf) if leaf.nodeName() in (_V1, _V2) else None
        found.append((named or str(number), leaf))
    return found


def sources_of(rows: DataFrame) -> tuple[Source, ...]:
    """The source of each line of the query's offsets. Raises Spark's own errors."""
    return tuple(_source(rows, folder, leaf) for folder, leaf in streaming_leaves(rows))


def is_kafka(leaf: Any) -> bool:
    """Whether a leaf is a source of Kafka."""
    return bool(leaf.nodeName() == _V2 and leaf.table().getClass().getName().startswith(_KAFKA))


def _source(rows: DataFrame, folder: str, leaf: Any) -> Source:
    match leaf.nodeName():
        case kind if kind == _V1:
            return _source_v1(rows, folder, leaf.dataSource())
        case kind if kind == _V2:
            return _source_v2(rows, folder, leaf)
        case kind:
            return Source.of(folder, ANOTHER, kind)


def _source_v1(rows: DataFrame, folder: str, source: Any) -> Source:
    """A source of the first kind of Spark's interfaces: files, and most sources of others."""
    provider = source.providingInstance()
    gateway = rows.sparkSession.sparkContext._gateway
    files = is_instance_of(gateway, provider, _FILE_FORMAT) and not is_instance_of(gateway, provider, _OWN_STREAM)
    format_ = _short_name(rows, provider) or source.className()
    kind = FILES if files else ANOTHER
    table = source.catalogTable()
    if table.isDefined():
        return Source.of(folder, kind, f"table {table.get().identifier().unquotedString()}")
    options = _options(rows, source.options())
    url = ""
    for name, value in options.items():
        if name.lower() == "path":
            qualified = _qualified(rows, value)
            options[name] = str(qualified)
            url = qualified.toUri().toString() if files else ""
    return Source.of(folder, kind, in_words(format_, options, files=files), path=url)


def _source_v2(rows: DataFrame, folder: str, leaf: Any) -> Source:
    provider = leaf.source()
    kafka = is_kafka(leaf)
    kind = ANOTHER
    format_ = str(leaf.sourceName())
    if kafka:
        kind = format_ = KAFKA
    elif provider.isDefined():
        format_ = _short_name(rows, provider.get()) or format_
        kind = RATE if provider.get().getClass().getName() == _RATE else ANOTHER
    if leaf.identifier().isDefined():
        catalog = f"{leaf.catalog().get().name()}." if leaf.catalog().isDefined() else ""
        return Source.of(folder, kind, f"table {catalog}{leaf.identifier().get()}")
    options = leaf.extraOptions().asCaseSensitiveMap()
    return Source.of(folder, kind, in_words(format_, {str(name): str(options[name]) for name in options}))


def _short_name(rows: DataFrame, provider: Any) -> str | None:
    """The name by which users write a format; None: it has none."""
    if is_instance_of(rows.sparkSession.sparkContext._gateway, provider, _SHORT):
        return str(provider.shortName()).lower()
    return None


def _options(rows: DataFrame, options: Any) -> dict[str, str]:
    """A map of Scala's."""
    jvm: Any = rows.sparkSession._jvm
    found: Mapping[Any, Any] = jvm.scala.collection.JavaConverters.mapAsJavaMap(options)
    return {str(name): str(found[name]) for name in found}


def _qualified(rows: DataFrame, path: str) -> Any:
    """A path as Hadoop's file system knows it, with its scheme and the working directory."""
    jvm: Any = rows.sparkSession._jvm
    hadoop = jvm.org.apache.hadoop.fs.Path(path)
    files = hadoop.getFileSystem(rows._jdf.sparkSession().sessionState().newHadoopConf())
    return files.makeQualified(hadoop)
