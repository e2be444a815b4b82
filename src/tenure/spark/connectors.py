"""Connectors by name: the packages and the settings of Spark for Kafka, S3, Delta Lake and Iceberg, for each release.

Promise: a name stands for exact coordinates (`spark/coordinates.py`), and no jar of them replaces a jar that Spark has
itself. A package of your own goes before the same package of a connector, a setting of your own before its setting, and
`spark.sql.extensions` keeps yours. No I/O but a look for the installed Spark. Not promised: packages that
`spark-defaults.conf` names; spark-submit drops them when it gets the flag `--packages`, and a connector is that flag.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from tenure.errors import UsageError
from tenure.spark.coordinates import OF_RELEASE, Connector, Lacking
from tenure.spark.installed import InstalledSpark, find_spark

PACKAGES: Final = ("--packages", "spark.jars.packages")
EXCLUDED: Final = ("--exclude-packages", "spark.jars.excludes")
"""The flag of spark-submit, and the setting of the same meaning."""

EXTENSIONS: Final = "spark.sql.extensions"

NAMES: Final = tuple(dict.fromkeys(name for known in OF_RELEASE.values() for name in known))

_NO_SOURCE: Final = "Failed to find (?:the )?data source: "
_NO_CLASS: Final = "(?:Cannot find catalog plugin class for catalog '[^']*': |ClassNotFoundException: )"
_SIGNS: Final[Mapping[str, re.Pattern[str]]] = {
    "kafka": re.compile(r"Failed to find data source: kafka\b"),
    "s3": re.compile(
        r"Class org\.apache\.hadoop\.fs\.s3a\.\w+ not found|No FileSystem for scheme \"?s3[an]?\b"
        r"|(?:ClassNotFoundException|NoClassDefFoundError): software[./]amazon[./]"
    ),
    "delta": re.compile(rf"{_NO_SOURCE}delta\b|{_NO_CLASS}org\.apache\.spark\.sql\.delta\.|{_NO_CLASS}io\.delta\."),
    "iceberg": re.compile(rf"{_NO_SOURCE}iceberg\b|{_NO_CLASS}org\.apache\.iceberg\."),
}
"""Name -> how Spark's error reads where the connector is missing."""


def connectors_of(names: Sequence[str], spark: InstalledSpark | None = None) -> list[Connector]:
    """The connectors of these names, each once, for a Spark. `spark` None: the installed one. Raises UsageError."""
    for name in names:
        if name not in NAMES:
            raise UsageError(f"there is no connector {name!r}", fix=f"known: {', '.join(NAMES)}; or use --packages")
    if not names:
        return []
    found = spark or find_spark()
    return [_connector(name, found) for name in dict.fromkeys(names)]


def _connector(name: str, spark: InstalledSpark) -> Connector:
    connector = OF_RELEASE.get((spark.release, spark.scala), {}).get(name)
    if connector is None:
        raise UsageError(
            f"connector {name!r} was not tested with Spark {spark.version} and Scala {spark.scala}",
            fix=f"it was with {', '.join(releases_of(name))}; or name the packages for your Spark with --packages",
        )
    if isinstance(connector, Lacking):
        raise UsageError(
            f"there is no connector {name!r} for Spark {spark.version}: {connector.why}", fix=connector.fix
        )
    return connector


def releases_of(name: str) -> list[str]:
    """The releases of Spark for which there is such a connector."""
    found = (release for (release, _), known in OF_RELEASE.items() if isinstance(known[name], Connector))
    return list(dict.fromkeys(found))


def missing_connector(error: str) -> str | None:
    """How to fix an error of Spark that speaks of a missing connector; None: it speaks of something else."""
    names = (name for name, sign in _SIGNS.items() if sign.search(error))
    return next((f"give --connector {name}, or the jars that Spark needs" for name in names), None)


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
    lists = ((PACKAGES[0], packages), (EXCLUDED[0], excluded))
    return [*rest, *((flag, ",".join(dict.fromkeys(found))) for flag, found in lists if found)]


def settings_beside(yours: Callable[[str], str | None], connectors: Collection[Connector]) -> dict[str, str]:
    """The settings of Spark that the connectors need, beside yours. `yours`: name -> its value; None: you set none."""
    found: dict[str, str] = {}
    for connector in connectors:
        found |= {name: value for name, value in connector.settings.items() if yours(name) is None}
    needed = [one for connector in connectors for one in connector.extensions]
    given = [one.strip() for one in (yours(EXTENSIONS) or "").split(",") if one.strip()]
    if any(one not in given for one in needed):
        found[EXTENSIONS] = ",".join(dict.fromkeys([*given, *needed]))
    return found


def module_of(package: str) -> str:
    """The coordinates of a package without its version."""
    return ":".join(package.replace("/", ":").split(":")[:2])


def _listed(given: Sequence[tuple[str, str]], names: Collection[str]) -> Iterator[str]:
    for name, value in given:
        if name in names:
            yield from filter(None, map(str.strip, value.split(",")))
