"""Files in HDFS, by hdfs-native.

Promise: `write` and `replace` fill a hidden file and rename it, which is atomic in HDFS. Folders exist by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tenure.errors import UsageError
from tenure.storage.names import unfinished
from tenure.storage.remote import Remote
from tenure.storage.storage import Listed, reason
from tenure.wording import how_to_install


class Hdfs(Remote):
    """Below `hdfs://authority/path`."""

    keeps_folders = True

    def _client(self, url: str, what: str) -> tuple[Any, str, tuple[type[Exception], ...]]:
        """fsspec by itself takes pyarrow's client, which needs Hadoop's native library on the machine."""
        try:
            from tenure.storage.hdfs_client import client_of
        except ImportError as error:
            raise UsageError(f"{what} {url!r} cannot be used: {error}", fix=how_to_install("hdfs")) from error
        authority, _, path = url.removeprefix("hdfs://").partition("/")
        host, _, port = authority.partition(":")  # a nameservice may have capitals, which urllib lowers
        try:
            fs = client_of(host or None, int(port) if port else None)
        except (ValueError, OSError, RuntimeError) as error:
            raise UsageError(
                f"{what} {url!r} cannot be used: {reason(error)}", fix="use hdfs://namenode:8020/path"
            ) from error
        return fs, f"/{path}", (OSError, RuntimeError)

    def _create(self, full: str, data: bytes) -> None:
        self.fs.put_whole(unfinished(full), full, data, overwrite=False)

    def _replace(self, full: str, data: bytes) -> None:
        self.fs.put_whole(unfinished(full), full, data, overwrite=True)

    def _move(self, full: str, to: str) -> None:
        if not self.fs.exists(full):
            raise FileNotFoundError(full)
        self.fs.client.rename(full, to, overwrite=False)

    def _is_empty(self, full: str) -> bool:
        return not self.fs.ls(full)

    def _remove_empty(self, path: str) -> None:
        full = self._full(path)
        if self.fs.ls(full):
            return
        try:
            self.fs.rmdir(full)
        except RuntimeError:
            if not self.fs.ls(full):
                raise
            # another process has put a file there meanwhile, and HDFS has refused

    def _list_empty(self, folder: str) -> Iterator[Listed]:
        yield Listed(folder, [""], [0])

    def _is_refusal(self, error: Exception) -> bool:
        from tenure.storage.hdfs_client import is_refusal

        return is_refusal(error)
