"""The log of a folder of plain files, as Spark's own file sink keeps it: `_spark_metadata/N` names those of batch N.

Promise: the log takes each batch once, by put-if-absent, from any writer: this sink, a leader that was paused, or
Spark's own sink. Spark's readers see the files that the log names, and no others. Each tenth entry (`N.compact`) has
all entries before it, so that a reader opens ten small files and one large one; entries that a hundred later batches
have made needless are removed. A late writer may put an entry that was removed: it is older than each that is read. One
query of one pipeline writes to a folder: batches have numbers only, and another query's batch 7 would be taken for this
query's. The folder belongs to the query that `_spark_metadata/_tenure.json` names, from its first planned batch on.

Source: `FileStreamSinkLog` and `CompactibleFileStreamLog` of Apache Spark, format v1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final
from urllib.parse import quote, unquote

from tenure.errors import BlobExists, BlobNotFound, QueryFailed, StorageError
from tenure.sinks.staging.stage import PREFIX, StagingPath
from tenure.storage.storage import Storage

FOLDER: Final = "_spark_metadata"
OWNER: Final = f"{FOLDER}/_tenure.json"
BEGUN: Final = f"{FOLDER}/_begun"
"""An empty file. With a file in the log's folder, Spark's readers see no file that no entry names."""
_VERSION: Final = "v1"
_COMPACT: Final = ".compact"
_EVERY: Final = 10
"""Spark's `spark.sql.streaming.fileSink.log.compactInterval`."""
_KEPT: Final = 100
"""Spark's `spark.sql.streaming.minBatchesToRetain`."""
_BLOCK_BYTES: Final = 128 * 1024 * 1024
_STAGED: Final = re.compile(
    rf"/{PREFIX}(?P<scope>[^/]+?)(?:/[^/]+/[^/]+/|-)e\d{{8,}}[/-]b\d{{12,}}[/-](?P<attempt>[0-9a-f]{{32}})[/-]"
)
_AMONG: Final = re.compile(
    rf"\.?{PREFIX}(?P<scope>.+)-e(?P<epoch>\d{{8,}})-b(?P<batch>\d{{12,}})-(?P<attempt>[0-9a-f]{{32}})-"
)
_IN_A_URL: Final = "/:=,;@!$&'()*+~"


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A file of a batch. `url`: in Hadoop's spelling, as it is read, without escapes."""

    url: str
    size: int
    modified_ms: int

    def line(self) -> str:
        """The line of the file in the log."""
        fields = {
            "path": quote(self.url, safe=_IN_A_URL),
            "size": self.size,
            "isDir": False,
            "modificationTime": self.modified_ms,
            "blockReplication": 1,
            "blockSize": _BLOCK_BYTES,
            "action": "add",
        }
        return json.dumps(fields, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a pipeline."""

    scope: str
    query: str
    query_id: str
    """Spark's."""

    def __str__(self) -> str:
        return f"stream {self.query!r} of scope {self.scope!r} with query id {self.query_id}"


@dataclass(frozen=True, slots=True)
class FolderOwner:
    """The query whose batches the log has."""

    query: Query
    since: int
    """The first batch that it wrote, or found in the log that a job of plain Spark had kept until then."""
    earlier: tuple[str, ...] = ()
    """The scopes from which the query was adopted: they have the folder no more."""

    def encode(self) -> bytes:
        """The content of the file."""
        return json.dumps({"v": 1, "since": self.since, "earlier": self.earlier, **asdict(self.query)}).encode()

    @classmethod
    def decode(cls, content: bytes) -> FolderOwner:
        """Raises ValueError, KeyError, TypeError."""
        found = json.loads(content)
        query = Query(str(found["scope"]), str(found["query"]), str(found["query_id"]))
        return cls(query, int(found["since"]), tuple(map(str, found["earlier"])))


class FileLog:
    """The log of one folder. Used by one thread at a time."""

    def __init__(self, storage: Storage, *, where: str) -> None:
        """`storage`: with the folder as its root. `where`: the folder, for people."""
        self._storage = storage
        self._where = where
        self._newest: int | None = None  # None: not read yet
        self._every = _EVERY

    @property
    def newest(self) -> int:
        """The newest batch that this object knows of; -1: the log is empty. Raises StorageError."""
        return self.refresh() if self._newest is None else self._newest

    def refresh(self) -> int:
        """List the log; return its newest batch. Raises StorageError."""
        found = self._listed()
        self._every = _interval(sorted(number for number, is_whole in found.items() if is_whole))
        self._newest = max(found, default=-1)
        return self._newest

    def check(self, query: Query, *, batch: int, check_new: Callable[[], None] = lambda: None) -> None:
        """Refuse a folder that the query may not have, before its `batch` is staged there, and hide the staged files
        from Spark's readers. The folder stays free: a batch that is never planned may be all that its query ever was.
        `check_new`: refuses a folder without a log. Raises QueryFailed: another query has it, or the log is not where
        the query goes on; StorageError."""
        if self._takeable(query, batch=batch) is not None or self.newest >= 0:
            return
        try:
            self._storage.read(BEGUN)
        except BlobNotFound:
            check_new()
            with suppress(BlobExists):
                self._storage.write(BEGUN, b"")

    def claim(self, query: Query, *, batch: int) -> FolderOwner:
        """Take the folder for the query, whose `batch` is planned. A scope that has adopted the query from another
        scope takes it over, for good. Raises QueryFailed, as `check` does; StorageError."""
        found = self._takeable(query, batch=batch)
        if found is not None and found.query == query:
            return found
        if found is not None:
            owner = FolderOwner(query, batch, earlier=(*found.earlier, found.query.scope))
            self._storage.replace(OWNER, owner.encode())
            return owner
        owner = FolderOwner(query, batch)
        try:
            self._storage.write(OWNER, owner.encode())
        except BlobExists:
            return self.claim(query, batch=batch)
        return owner

    def _takeable(self, query: Query, *, batch: int) -> FolderOwner | None:
        """The owner, which is the query, or from which it was adopted; None: there is none. Raises QueryFailed: the
        query may not have the folder; StorageError."""
        newest, found = self.refresh(), self.owner()
        if found is not None and found.query == query:
            return found
        if found is not None and (found.query.query_id != query.query_id or query.scope in found.earlier):
            raise QueryFailed(
                f"{self._where} belongs to {found.query}, not to {query}",
                fix="name another folder: each query has its own, and a pipeline that begins afresh begins a new one",
            )
        if newest >= 0 and newest not in (batch, batch - 1):
            raise QueryFailed(
                f"{self._where} has the batches of another job, up to {newest}, and batch {batch} of {query} does not "
                "go on there",
                fix="name another folder, or adopt the checkpoint of that job (tenure adopt)",
            )
        return found

    def owner(self) -> FolderOwner | None:
        """The query that has the folder; None: no query of Tenure's. Raises StorageError, QueryFailed."""
        try:
            return FolderOwner.decode(self._storage.read(OWNER))
        except BlobNotFound:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise QueryFailed(f"{self._storage.where(OWNER)} does not decode: {error!r}") from error

    def add(self, batch: int, files: Sequence[LoggedFile]) -> bool:
        """Put the entry of a batch that is new to this object. False: another writer has put it. Raises StorageError:
        it may have been put; QueryFailed: the log has lost an entry."""
        if self.newest < batch - 1:
            self._begin(batch)
        lines = [file.line() for file in files]
        is_whole = self._is_whole(batch)
        content = [*self._all_before(batch), *lines] if is_whole else lines
        try:
            self._storage.write(self._path(batch), "\n".join([_VERSION, *content]).encode())
        except BlobExists:
            is_ours = self._of_batch(batch) == lines  # an earlier put, whose reply was lost
        else:
            is_ours = True
        self._newest = max(self.newest, batch)
        if is_ours and is_whole:
            self._forget(batch)
        return is_ours

    def writers_of(self, batch: int) -> set[str | None]:
        """The scopes that have staged the files of a batch; None: Spark's own sink, or another job. Raises
        StorageError, QueryFailed."""
        staged = map(staged_by, self.urls_of(batch))
        return {None if one is None else one[0] for one in staged}

    def urls_of(self, batch: int) -> list[str]:
        """The files of one batch. Raises StorageError, QueryFailed."""
        return [self._url(line) for line in self._of_batch(batch)]

    def _of_batch(self, batch: int) -> list[str]:
        """The lines of a batch's own files."""
        lines = self._lines(batch) or []
        return lines[len(self._all_before(batch)) :] if lines and self._is_whole(batch) else lines

    def urls(self) -> Iterator[str]:
        """All files that the log names. Raises StorageError, QueryFailed."""
        return map(self._url, self._all_before(self.refresh() + 1))

    def _url(self, line: str) -> str:
        try:
            return unquote(json.loads(line)["path"])
        except (ValueError, KeyError, TypeError) as error:
            raise QueryFailed(f"an entry of {self._storage.where(FOLDER)} does not decode: {error!r}") from error

    def _begin(self, batch: int) -> None:
        """Make the log of a new folder begin before `batch`: readers want each entry since the last whole one."""
        if self.newest >= 0:
            raise QueryFailed(
                f"{self._where} has the batches up to {self.newest}, and batch {batch} comes now",
                fix="put the log back that the folder had (_spark_metadata), or name another folder",
            )
        for number in range(max(0, batch // self._every * self._every - 1), batch):
            try:
                self._storage.write(self._path(number), _VERSION.encode())
            except BlobExists:
                continue
        self._newest = batch - 1

    def _all_before(self, batch: int) -> list[str]:
        """The lines of all entries before a batch."""
        found: list[str] = []
        for number in range(max(0, batch // self._every * self._every - 1), batch):
            lines = self._lines(number)
            if lines is None:
                raise QueryFailed(
                    f"{self._where} has lost entry {number} of its log, and Spark reads nothing without it",
                    fix=f"put {self._storage.where(self._path(number))} back",
                )
            found += lines
        return found

    def _lines(self, batch: int) -> list[str] | None:
        """The lines of an entry; None: there is none."""
        for path in (self._path(batch), f"{FOLDER}/{batch}{'' if self._is_whole(batch) else _COMPACT}"):
            try:
                version, *lines = self._storage.read(path).decode().split("\n")
            except BlobNotFound:
                continue
            except UnicodeDecodeError as error:
                raise QueryFailed(f"{self._storage.where(path)} does not decode: {error}") from error
            if version != _VERSION:
                raise QueryFailed(f"{self._storage.where(path)} has format {version[:20]!r}, not {_VERSION}")
            return [line for line in lines if line]
        return None

    def _forget(self, batch: int) -> None:
        """Remove the entries that no reader needs. What cannot be removed is removed the next time."""
        limit = (batch - _KEPT + 1) // self._every * self._every - 1
        if limit <= 0:
            return
        try:
            for number, is_whole in self._listed().items():
                if number < limit:
                    self._storage.delete(f"{FOLDER}/{number}{_COMPACT if is_whole else ''}")
        except StorageError:
            return

    def _listed(self) -> dict[int, bool]:
        """The batches of the log -> whether its entry has all before it."""
        found = {}
        for entry in self._storage.entries(FOLDER):
            number, whole = entry.name.removesuffix(_COMPACT), entry.name.endswith(_COMPACT)
            if number.isdecimal() and not entry.folder:
                found[int(number)] = whole
        return found

    def _is_whole(self, batch: int) -> bool:
        return (batch + 1) % self._every == 0

    def _path(self, batch: int) -> str:
        return f"{FOLDER}/{batch}{_COMPACT if self._is_whole(batch) else ''}"


def prefix_of(path: StagingPath) -> str:
    """What the name of each file of an attempt begins with, where the file lies among those of others."""
    return f"{PREFIX}{quote(path.scope, safe='')}-e{path.epoch:08d}-b{path.batch:012d}-{path.attempt}-"


def attempt_of(path: str, *, of: Query) -> StagingPath | None:
    """The attempt of a file among others, in the folder of a query; None: its name is no attempt's."""
    found = _AMONG.match(path.rsplit("/", 1)[-1])
    if found is None:
        return None
    scope, epoch, batch = unquote(found["scope"]), int(found["epoch"]), int(found["batch"])
    return StagingPath(scope, of.query, of.query_id, epoch, batch, found["attempt"])


def staged_by(url: str) -> tuple[str, str] | None:
    """The scope and the attempt that have staged a file; None: it is no file of Tenure's."""
    found = _STAGED.search(url)
    return None if found is None else (unquote(found["scope"]), found["attempt"])


def _interval(whole: Sequence[int]) -> int:
    """How often the log's writers have put a whole entry, as Spark's readers derive it. `whole`: in order."""
    if not whole:
        return _EVERY
    if len(whole) > 1:
        return whole[-1] - whole[-2]
    number = whole[0] + 1
    if number <= _EVERY:
        return number
    return next((some for some in range(_EVERY, number // 2 + 1) if number % some == 0), number)
