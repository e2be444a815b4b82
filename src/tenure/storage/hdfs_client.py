"""HDFS by `hdfs-native`, with paths as they are, errors that say whether to try again, and a limit for each call.

Promise: a path is all that follows the authority, with any signs in it. hdfs-native itself reads a path as a URL, and
takes `a;b`, `a#b` and `a?b` for `a`. `rename` is atomic.

hdfs-native waits for the answer of a NameNode without a limit: if the host is gone without a word, for a quarter of an
hour, until TCP gives up, and for a new connection another two minutes. So a call that has no answer after `_SILENT_S`
raises `Unanswered`, and the next call has new connections. Those of a nameservice ask another NameNode first. The call
that got no answer may still have its effect.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import count, islice
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar
from xml.etree import ElementTree

from hdfs_native import Client
from hdfs_native.fsspec import HdfsFileSystem

from tenure.patience import Unanswered, answered

T = TypeVar("T")

_SILENT_S: Final = 60
"""As long as Hadoop's own client waits for a DataNode. A NameNode that hands over to its standby takes less."""
_PIECE: Final = 4 << 20
"""Bytes that are read or written by one call with a limit."""
_PAGE: Final = 1000
"""Files that are listed by one call with a limit; a NameNode by default answers with as many."""
_OF_NAMENODE: Final = re.compile(r'(?:Fatal)?RPCError\("(?:[\w$]+\.)*([\w$]+)", "(.*)"\)', flags=re.DOTALL)
_REFUSED: Final = re.compile(r"AccessControlException|SafeModeException|Permission denied|QuotaExceeded")


class HdfsClient(HdfsFileSystem):
    """The file system behind `hdfs://authority`. Call `client_of`."""

    cachable = False
    """fsspec drops its cached clients in a forked child. There, the end of a client waits for ever for threads that the
    fork did not copy."""

    def __init__(self, host: str | None, port: int | None) -> None:
        super().__init__(host=host, port=port)
        service = host if host is not None and port is None else ""
        client: Any = self.client
        client.inner = _Raw(client.inner, partial(_raw_client, self.unstrip_protocol(""), service, _namenodes(service)))

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        if path.startswith("hdfs://"):
            path = "/" + path.removeprefix("hdfs://").partition("/")[2]
        return path or cls.root_marker

    def rm_file(self, path: str) -> None:
        """Raises FileNotFoundError: there is no such file."""
        if not self.client.delete(self._strip_protocol(path), False):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """hdfs-native writes its copy below the working directory of HDFS, under `"." + path`."""
        with self.open(path1, "rb") as reader, self.open(path2, "wb") as writer:
            shutil.copyfileobj(reader, writer)

    def put_whole(self, hidden: str, path: str, data: bytes, *, overwrite: bool) -> None:
        """Write a file whole, or not at all. `hidden`: a path beside it that no other writer has."""
        try:
            self.pipe_file(hidden, data)
            self.client.rename(hidden, path, overwrite=overwrite)
        except BaseException:
            self._forget(hidden)
            raise

    def _forget(self, path: str) -> None:
        try:
            self.rm_file(path)
        except (OSError, RuntimeError):
            return  # the storage that refused the write keeps the file; nobody looks at such names


class _Raw:
    """hdfs-native's own client behind `Client`, with the methods that are called here.

    After a call without an answer, the next call has a new client. Used by several threads."""

    def __init__(self, raw: Any, renew: Callable[[int], Any]) -> None:
        """`renew`: a new client, given how many there were."""
        self._raw = raw
        self._renew = renew
        self._lock = Lock()
        self._clients = count(1)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._call, name)

    def list_status(self, path: str, recursive: bool) -> Iterator[Any]:
        raw = self._raw
        statuses = self._ask(raw, lambda: raw.list_status(path, recursive))
        while page := self._ask(raw, lambda: list(islice(statuses, _PAGE))):
            yield from page

    def read(self, path: str) -> _FileInPieces:
        raw = self._raw
        return _FileInPieces(self._ask(raw, lambda: raw.read(path)), partial(self._ask, raw))

    def create(self, path: str, options: Any) -> _NewFileInPieces:
        raw = self._raw
        return _NewFileInPieces(self._ask(raw, lambda: raw.create(path, options)), partial(self._ask, raw))

    def _call(self, name: str, *arguments: Any) -> Any:
        raw = self._raw
        return self._ask(raw, lambda: getattr(raw, name)(*arguments))

    def _ask(self, raw: Any, call: Callable[[], T]) -> T:
        """The answer to a call of `raw`, or of what it has opened."""
        try:
            return answered(call, within_s=_SILENT_S)
        except Unanswered:
            with self._lock:
                if self._raw is raw:  # else another call was first
                    self._raw = self._renew(next(self._clients))
            raise
        except RuntimeError as error:
            raise RuntimeError(_words(error)) from error


def _words(error: RuntimeError) -> str:
    """What a NameNode says, without its stack: hdfs-native shows the two as one literal of Rust."""
    told = _OF_NAMENODE.fullmatch(str(error))
    if told is None:
        return str(error)
    words = told[2].split(r"\n", 1)[0].replace(r"\"", '"').rstrip(".")
    return f"{told[1]}: {words}"


class _FileInPieces:
    """An open file, behind hdfs-native's `FileReader`."""

    def __init__(self, raw: Any, ask: Callable[[Callable[[], Any]], Any]) -> None:
        self._raw = raw
        self._ask = ask
        self.file_length, self.seek, self.tell = raw.file_length, raw.seek, raw.tell  # these ask no server

    def read(self, length: int) -> bytes:
        """Read so many bytes, fewer at the end, or all if it is negative."""
        left = self.file_length() - self.tell()
        left = left if length < 0 else min(left, length)
        pieces: list[bytes] = []
        while left > 0:
            piece = self._ask(partial(self._raw.read, min(left, _PIECE)))
            if not piece:
                raise OSError(f"the file ends {left} bytes early")
            pieces.append(piece)
            left -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class _NewFileInPieces:
    """A new file, behind hdfs-native's `FileWriter`."""

    def __init__(self, raw: Any, ask: Callable[[Callable[[], Any]], Any]) -> None:
        self._raw = raw
        self._ask = ask

    def write(self, data: bytes) -> int:
        for start in range(0, len(data), _PIECE):
            self._ask(partial(self._raw.write, data[start : start + _PIECE]))
        return len(data)

    def close(self) -> None:
        self._ask(self._raw.close)


def _raw_client(url: str, nameservice: str, namenodes: Sequence[str], earlier: int) -> Any:
    """A new client. Those of a nameservice ask another NameNode first than the client before."""
    if not namenodes:
        return Client(url).inner
    first = earlier % len(namenodes)
    order = {
        f"dfs.ha.namenodes.{nameservice}": ",".join((*namenodes[first:], *namenodes[:first])),
        f"dfs.client.failover.random.order.{nameservice}": "false",
    }
    return Client(url, order).inner


def _namenodes(nameservice: str) -> tuple[str, ...]:
    """The names of the NameNodes in Hadoop's files, where hdfs-native reads them; none: they are not there."""
    folder = os.environ.get("HADOOP_CONF_DIR")
    if folder is None and "HADOOP_HOME" in os.environ:
        folder = f"{os.environ['HADOOP_HOME']}/etc/hadoop"
    found = ""
    for path in () if folder is None else (Path(folder, "core-site.xml"), Path(folder, "hdfs-site.xml")):
        try:
            properties = list(ElementTree.parse(path).getroot().iter("property"))
        except (OSError, ElementTree.ParseError):
            continue  # hdfs-native judges the file: it has made a client
        for each in properties:
            if each.findtext("name") == f"dfs.ha.namenodes.{nameservice}":
                found = each.findtext("value") or ""
    return tuple(name for name in found.split(",") if name)


def client_of(host: str | None, port: int | None) -> HdfsClient:
    """The client of this process for an authority. Raises ValueError, OSError, RuntimeError: there is no such
    authority."""
    return _client_of(host, port, os.getpid())


@cache
def _client_of(host: str | None, port: int | None, process: int) -> HdfsClient:
    return HdfsClient(host=host, port=port)


def is_refusal(error: Exception) -> bool:
    """Whether HDFS answers the same however often it is asked."""
    return isinstance(error, PermissionError) or _REFUSED.search(str(error)) is not None
