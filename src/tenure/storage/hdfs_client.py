"""HDFS by `hdfs-native`, with paths as they are, and errors that say whether to try again.

Promise: a path is all that follows the authority, with any signs in it. hdfs-native itself reads a path as a URL, and
takes `a;b`, `a#b` and `a?b` for `a`. `rename` is atomic.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from functools import cache
from typing import Any, Final

from hdfs_native.fsspec import HdfsFileSystem

_REFUSED: Final = re.compile(r"AccessControlException|SafeModeException|Permission denied|QuotaExceeded")


class HdfsClient(HdfsFileSystem):
    """The file system behind `hdfs://authority`. Call `client_of`."""

    cachable = False
    """fsspec drops its cached clients in a forked child. There, the end of a client waits for ever for threads that the
    fork did not copy."""

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
