"""The sources of a query: what each is, and what it reads. Pure.

Promise: a source is known by what Spark's plan says of it, never by the looks of its offsets. Two sources are equal
when their format and the options that name their content are equal. The words of a source have the values of options
whose names say that they name a place; of others they have a fingerprint, and nothing of an option whose name speaks of
a secret. Not promised: that two equal sources have the same content.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

FILES: Final = "files"
"""Spark's own source of files, with a log of the files that it has read."""
KAFKA: Final = "kafka"
RATE: Final = "rate"
"""Spark's source of rows by the clock, which keeps the time of its start."""
ANOTHER: Final = "another"
"""Any other source. Its files are copied as they are, and none is demanded."""
Kind = Annotated[str, frozenset({FILES, KAFKA, RATE, ANOTHER})]

_NAMING: Final[Mapping[str, frozenset[str]]] = {
    KAFKA: frozenset({"subscribe", "subscribepattern", "assign"}),
    RATE: frozenset(),
    "rate-micro-batch": frozenset(),
    "delta": frozenset({"path"}),
    "iceberg": frozenset({"path"}),
    "socket": frozenset({"host", "port"}),
}
"""Format -> its options that name its content. Of a format that is not here, all options count but these:"""

_SECRET: Final = re.compile(r"secret|passw|pwd|token|key|credential|auth|connection|jaas|sasl|cert|sas|sig|private")
_LIMIT: Final = re.compile(r"max|min|starting|failon|timeout|retr")
_PLACES: Final = frozenset(
    {
        *("path", "paths", "folder", "dir", "file", "filename", "location", "bucket", "container", "url", "uri"),
        *("topic", "topics", "subscribe", "subscribepattern", "assign", "stream", "streamname", "feed", "channel"),
        *(
            "queue",
            "subscription",
            "table",
            "dbtable",
            "collection",
            "database",
            "dataset",
            "index",
            "host",
            "hostname",
        ),
        *("hostname", "port", "endpoint", "address", "region", "project", "namespace", "account", "name", "id"),
    }
)
"""Options whose values are shown."""
_USER_IN_URL: Final = re.compile(r"//[^/@\s]+@")
_QUERY_IN_URL: Final = re.compile(r"\?.*")
_TOLD_MOST: Final = 300


@dataclass(frozen=True, slots=True)
class Source:
    """One reading of a source by a query: a line of Spark's offsets."""

    folder: str
    """The source's folder below Spark's `sources/`: its number, or its name where Spark knows sources by name. A source
    that a query reads twice has one folder."""
    kind: Kind = field(compare=False)
    reads: str
    """The fingerprint of what it reads."""
    told: str = field(compare=False)
    """What it reads, for people."""
    path: str = field(default="", compare=False)
    """The URL of the files of a source of files, as Hadoop encodes it; empty: of any other source, or of a table."""

    @classmethod
    def of(cls, folder: str, kind: str, text: str, *, path: str = "") -> Source:
        """The source that reads what `text` says; `text` is the same in each process."""
        short = text if len(text) <= _TOLD_MOST else f"{text[:_TOLD_MOST]}..."
        return cls(folder, kind, _fingerprint(text), short, path)

    @property
    def is_named(self) -> bool:
        """Whether Spark knows the source by a name, and not by its position."""
        return not self.folder.isdecimal()


def in_words(format_: str, options: Mapping[str, str], *, files: bool = False) -> str:
    """What a source reads, by its format and options. `files`: it is Spark's source of files."""
    naming = frozenset({"path"}) if files else _NAMING.get(format_)
    named = {
        name: value
        for name, value in ((name.lower(), value) for name, value in options.items())
        if (name in naming if naming is not None else not _SECRET.search(name) and not _LIMIT.match(name))
    }
    plain = {name: _plain(name, value) for name, value in named.items()}
    shown = {name: value if name in _PLACES else f"#{_fingerprint(value)[:8]}" for name, value in plain.items()}
    return " ".join([format_, *(f"{name}={value}" for name, value in sorted(shown.items()))])


def _plain(name: str, value: str) -> str:
    """The value of an option, in one spelling."""
    if name == "subscribe":
        return ",".join(sorted({topic.strip() for topic in value.split(",")}))
    if name == "assign":
        try:
            return json.dumps(json.loads(value), sort_keys=True, separators=(",", ":"))
        except ValueError:
            return value
    if "://" not in value:
        return value
    value = _USER_IN_URL.sub("//", value)
    return _QUERY_IN_URL.sub("", value) if _SECRET.search(value.lower()) else value


def _fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def kinds_of(sources: Sequence[Source]) -> dict[str, Kind]:
    """The kind of each source, by its folder."""
    return {source.folder: source.kind for source in sources}


def paths_of(sources: Sequence[Source]) -> dict[str, str]:
    """The path of each source of files: folder -> URL."""
    return {source.folder: source.path for source in sources if source.path}


def sources_beside(folders: Sequence[str], sources: Sequence[Source]) -> tuple[Source, ...]:
    """The declared `sources` of a running query. `folders`: of the lines of its offsets, by number. Where the two do
    not fit, the sources are not known."""
    named = any(source.is_named for source in sources)
    return tuple(sources) if named or [source.folder for source in sources] == list(folders) else ()
