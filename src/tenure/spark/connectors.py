"""Connectors by name: the packages that Spark needs for Kafka and for S3, for each Spark with which they were tested.

Promise: a name stands for exact coordinates, and no jar of them replaces a jar that Spark has itself. A package of your
own goes before the same package of a connector. No I/O but a look for the installed Spark. Not promised: packages that
`spark-defaults.conf` names; spark-submit drops them when it gets the flag `--packages`, and a connector is that flag.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tenure.errors import UsageError
from tenure.wording import how_to_install

PACKAGES: Final = ("--packages", "spark.jars.packages")
EXCLUDED: Final = ("--exclude-packages", "spark.jars.excludes")
"""The flag of spark-submit, and the setting of the same meaning."""


@dataclass(frozen=True, slots=True)
class Connector:
    """The packages of one connector. `excluded`: the packages that these ask for, and that Spark has in its own jars or
    that are not needed."""

    packages: tuple[str, ...]
    excluded: tuple[str, ...]


_HADOOPS: Final = ("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime")

_KAFKA: Final = Connector(
    packages=("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",),  # the newest there is; it runs on Spark 4.3, too
    excluded=(
        *_HADOOPS,
        "at.yawk.lz4:lz4-java",
        "com.google.code.findbugs:jsr305",
        "org.scala-lang.modules:scala-parallel-collections_2.13",
        "org.slf4j:slf4j-api",
        "org.xerial.snappy:snappy-java",
    ),
)

_NETTYS: Final = (
    *("buffer", "codec", "codec-http", "codec-http2", "common", "handler", "resolver", "transport"),
    *("transport-classes-epoll", "transport-native-unix-common"),
)

_S3: Final = Connector(
    packages=(
        "org.apache.hadoop:hadoop-aws:3.5.0",
        "software.amazon.awssdk:s3:2.35.4",
        "software.amazon.awssdk:s3-transfer-manager:2.35.4",
        "software.amazon.awssdk:sts:2.35.4",
        "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
    ),
    excluded=(
        *_HADOOPS,
        "software.amazon.awssdk:bundle",  # 686 MB: every service of AWS
        "commons-codec:commons-codec",
        "commons-logging:commons-logging",
        *(f"io.netty:netty-{part}" for part in _NETTYS),
        "org.apache.httpcomponents:httpclient",
        "org.apache.httpcomponents:httpcore",
        "org.slf4j:slf4j-api",
        "org.wildfly.openssl:wildfly-openssl",
    ),
)

CONNECTORS: Final[Mapping[str, Mapping[str, Connector]]] = {
    "kafka": {"4.2": _KAFKA, "4.3": _KAFKA},
    "s3": {"4.2": _S3, "4.3": _S3},
}
"""Name -> minor version of Spark -> the packages that were tested with it."""

_SIGNS: Final[Mapping[str, re.Pattern[str]]] = {
    "kafka": re.compile(r"Failed to find data source: kafka\b"),
    "s3": re.compile(
        r"Class org\.apache\.hadoop\.fs\.s3a\.\w+ not found|No FileSystem for scheme \"?s3[an]?\b"
        r"|(?:ClassNotFoundException|NoClassDefFoundError): software[./]amazon[./]"
    ),
}
"""Name -> how Spark's error reads where the connector is missing."""


def connectors_of(names: Sequence[str]) -> list[Connector]:
    """The connectors of these names, each once, for the installed Spark. Raises UsageError."""
    for name in names:
        if name not in CONNECTORS:
            raise UsageError(
                f"there is no connector {name!r}", fix=f"known: {', '.join(CONNECTORS)}; or use --packages"
            )
    if not names:
        return []
    version = spark_version()
    minor = ".".join(version.split(".")[:2])
    for name in names:
        if minor not in CONNECTORS[name]:
            raise UsageError(
                f"connector {name!r} was not tested with Spark {version}",
                fix=f"it was with {', '.join(CONNECTORS[name])}; or name the packages for your Spark with --packages",
            )
    return [CONNECTORS[name][minor] for name in dict.fromkeys(names)]


def missing_connector(error: str) -> str | None:
    """How to fix an error of Spark that speaks of a missing connector; None: it speaks of something else."""
    names = (name for name, sign in _SIGNS.items() if sign.search(error))
    return next((f"give --connector {name}, or the jars that Spark needs" for name in names), None)


def spark_version() -> str:
    """The version of the installed Spark. PySpark is not imported. Raises UsageError: it is not installed."""
    found = find_spec("pyspark")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        file = Path(folder, "version.py")
        if file.exists() and (
            match := re.search(r"__version__.*?[\"']([^\"']+)[\"']", file.read_text(encoding="utf-8"))
        ):
            return match[1]
    raise UsageError("the Python package 'pyspark' is not installed", fix=how_to_install("spark"))


def with_connectors(
    flags: Sequence[tuple[str, str | None]], settings: Sequence[tuple[str, str]], connectors: Collection[Connector]
) -> list[tuple[str, str | None]]:
    """The flags of spark-submit with the packages of the connectors. `settings`: of Spark, from elsewhere, whose
    packages are kept: the flag would replace them."""
    if not connectors:
        return list(flags)
    given = [(name, value or "") for name, value in flags] + list(settings)
    packages = list(_listed(given, PACKAGES))
    named = {module_of(package) for package in packages}
    packages += [one for each in connectors for one in each.packages if module_of(one) not in named]
    excluded = list(_listed(given, EXCLUDED))
    excluded += [one for each in connectors for one in each.excluded if one not in named]
    rest = [(flag, value) for flag, value in flags if flag not in (PACKAGES[0], EXCLUDED[0])]
    return [
        *rest,
        (PACKAGES[0], ",".join(dict.fromkeys(packages))),
        (EXCLUDED[0], ",".join(dict.fromkeys(excluded))),
    ]


def module_of(package: str) -> str:
    """The coordinates of a package without its version."""
    return ":".join(package.replace("/", ":").split(":")[:2])


def _listed(given: Sequence[tuple[str, str]], names: Collection[str]) -> Iterator[str]:
    for name, value in given:
        if name in names:
            yield from filter(None, map(str.strip, value.split(",")))
