"""Data: the packages of each connector, for each release of Spark and each version of Scala in it.

Promise: each package is in Maven's central repository, and was resolved beside the jars of the PySpark that the comment
names. A package that Spark has itself is excluded. No code.

The reasons of the versions. Kafka's connector is a part of Spark; any patch release of a line runs on the others, and
the newest is taken that could be resolved with all that it needs. hadoop-aws is of the very Hadoop in Spark's jars, and
the SDK of AWS is of the version with which that Hadoop was built, or the next that could be resolved whole. Delta Lake
and Iceberg have a package for each release of Spark; one version of each is taken for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector for one release. `excluded`: the packages that its own packages ask for, and that Spark has in its
    jars or that are not needed. `extensions`: classes for `spark.sql.extensions`, beside yours. `settings`: of Spark,
    each where you set none."""

    packages: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lacking:
    """A release for which a connector is not released. `why`: the missing package. `fix`: how to go on."""

    why: str
    fix: str


# --- Kafka ----------------------------------------------------------------------------------------------------

_HADOOPS: Final = ("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime")
_EXCLUDED_BY_KAFKA: Final = (
    *_HADOOPS,
    "com.google.code.findbugs:jsr305",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
_LZ4: Final = "org.lz4:lz4-java"
_PARALLEL: Final = "org.scala-lang.modules:scala-parallel-collections_2.13"


def _kafka(version: str, *excluded: str, scala: str = "2.13") -> Connector:
    package = f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{version}"
    return Connector((package,), (*_EXCLUDED_BY_KAFKA, *excluded))


# --- S3 -------------------------------------------------------------------------------------------------------

_NETTYS: Final = (
    *("buffer", "codec", "codec-http", "codec-http2", "common", "handler", "resolver", "transport"),
    *("transport-classes-epoll", "transport-native-unix-common"),
)
_EXCLUDED_BY_S3: Final = (
    *_HADOOPS,
    "commons-codec:commons-codec",
    "commons-logging:commons-logging",
    "org.apache.httpcomponents:httpclient",
    "org.apache.httpcomponents:httpcore",
    "org.slf4j:slf4j-api",
    "org.wildfly.openssl:wildfly-openssl",
)


def _s3(hadoop: str, sdk: str, accelerator: str = "") -> Connector:
    """hadoop-aws with the parts of the second SDK of AWS that it loads. `accelerator`: Hadoop 3.4.2 and newer load its
    classes."""
    packages = [f"org.apache.hadoop:hadoop-aws:{hadoop}"]
    packages += [f"software.amazon.awssdk:{part}:{sdk}" for part in ("s3", "s3-transfer-manager", "sts")]
    if accelerator:
        packages.append(f"software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:{accelerator}")
    whole = "software.amazon.awssdk:bundle"  # 686 MB: every service of AWS
    return Connector(tuple(packages), (*_EXCLUDED_BY_S3, whole, *(f"io.netty:netty-{part}" for part in _NETTYS)))


def _s3_of_first_sdk(hadoop: str, sdk: str) -> Connector:
    """hadoop-aws before 3.4, with the parts of the first SDK that it loads."""
    parts = ("s3", "sts", "dynamodb")  # its table of errors names classes of DynamoDB
    packages = [f"org.apache.hadoop:hadoop-aws:{hadoop}"]
    packages += [f"com.amazonaws:aws-java-sdk-{part}:{sdk}" for part in parts]
    whole = "com.amazonaws:aws-java-sdk-bundle"  # 280 MB
    jackson = ("core", "databind", "annotations")
    return Connector(
        tuple(packages),
        (
            *_EXCLUDED_BY_S3,
            whole,
            "joda-time:joda-time",
            *(f"com.fasterxml.jackson.core:jackson-{part}" for part in jackson),
        ),
    )


# --- tables ---------------------------------------------------------------------------------------------------


_EXCLUDED_BY_DELTA_4: Final = (
    *_HADOOPS,
    *(f"com.fasterxml.jackson.core:jackson-{part}" for part in ("annotations", "core", "databind")),
    "com.github.luben:zstd-jni",
    "com.google.code.findbugs:jsr305",
    "commons-logging:commons-logging",
    "commons-pool:commons-pool",
    "io.airlift:aircompressor",
    *(f"org.apache.logging.log4j:log4j-{part}" for part in ("api", "core", "slf4j2-impl")),
    *(
        f"org.apache.parquet:parquet-{part}"
        for part in ("column", "common", "encoding", "format-structures", "hadoop", "jackson")
    ),
    "org.roaringbitmap:RoaringBitmap",
    "org.roaringbitmap:shims",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)


def _delta(package: str, *excluded: str) -> Connector:
    return Connector(
        (package,),
        excluded,
        extensions=("io.delta.sql.DeltaSparkSessionExtension",),
        settings={"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"},
    )


def _delta_4(release: str) -> Connector:
    return _delta(f"io.delta:delta-spark_{release}_2.13:4.4.0", *_EXCLUDED_BY_DELTA_4)


def _iceberg(package: str) -> Connector:
    """One jar with all that it needs. A catalog has a place of yours, so it is yours to set."""
    extension = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    return Connector((package,), extensions=(extension,))


# --- the table ------------------------------------------------------------------------------------------------

_NO_DELTA: Final = Lacking(
    "Delta Lake has no release for it",
    "run Spark 4.2, or read the table without Spark; the sink Delta of Tenure needs no connector",
)
_NO_ICEBERG: Final = Lacking("Iceberg has no release for it", "run Spark 4.1, or name a jar of yours with --jars")


def _on_3_5(scala: str, kafka: Connector) -> Mapping[str, Connector | Lacking]:
    return {
        "kafka": kafka,
        "s3": _s3_of_first_sdk("3.3.4", "1.12.262"),
        "delta": _delta(f"io.delta:delta-spark_{scala}:3.3.3", "org.antlr:antlr4-runtime"),
        "iceberg": _iceberg(f"org.apache.iceberg:iceberg-spark-runtime-3.5_{scala}:1.11.0"),
    }


OF_RELEASE: Final[Mapping[tuple[str, str], Mapping[str, Connector | Lacking]]] = {
    ("3.5", "2.12"): _on_3_5("2.12", _kafka("3.5.7", _LZ4, scala="2.12")),  # PySpark 3.5.9
    ("3.5", "2.13"): _on_3_5("2.13", _kafka("3.5.4", _LZ4, _PARALLEL)),  # PyPI has none: resolved, not compared
    ("4.0", "2.13"): {  # PySpark 4.0.5
        "kafka": _kafka("4.0.0", _PARALLEL, _LZ4),
        "s3": _s3("3.4.1", "2.25.53"),
        "delta": _delta_4("4.0"),
        "iceberg": _iceberg("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"),
    },
    ("4.1", "2.13"): {  # PySpark 4.1.4
        "kafka": _kafka("4.1.1", _PARALLEL, _LZ4),
        "s3": _s3("3.4.2", "2.29.52", "1.2.1"),
        "delta": _delta_4("4.1"),
        "iceberg": _iceberg("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"),
    },
    ("4.2", "2.13"): {  # PySpark 4.2.1
        "kafka": _kafka("4.2.0", _PARALLEL, "at.yawk.lz4:lz4-java"),
        "s3": _s3("3.5.0", "2.35.4", "1.3.1"),
        "delta": _delta_4("4.2"),
        "iceberg": _NO_ICEBERG,
    },
    ("4.3", "2.13"): {  # PySpark 4.3.0; the connector of Kafka is that of 4.2, as there is no newer
        "kafka": _kafka("4.2.0", _PARALLEL, "at.yawk.lz4:lz4-java"),
        "s3": _s3("3.5.0", "2.35.4", "1.3.1"),
        "delta": _NO_DELTA,
        "iceberg": _NO_ICEBERG,
    },
}
"""Minor release of Spark and version of Scala -> name -> the connector."""
