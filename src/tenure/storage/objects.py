"""Objects in S3 beyond the interface of s3fs: deletions of many at once, pages, and the markers of folders.

Promise: each object that `delete` does not return is gone. Each key comes once, in the server's order. An object whose
key ends with `/` is the marker of a folder to Hadoop, and to servers that keep folders: it goes when nothing else has
its prefix. Errors are those of the client.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from tenure.storage.names import above, deepest_first
from tenure.storage.s3_listings import list_objects

AT_ONCE: Final = 1000
"""Keys of one call: S3's limit of a page, and of a deletion."""

_UNSPEAKABLE: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that XML 1.0 cannot carry."""

Page = Sequence[tuple[str, int]]
"""Paths below the root and sizes in bytes."""


class Objects:
    """The objects below `bucket/prefix`. `fs`: s3fs."""

    def __init__(self, fs: Any, root: str) -> None:
        self._fs = fs
        self._bucket, _, prefix = root.partition("/")
        self._prefix = f"{prefix}/" if prefix else ""

    def pages(self, folder: str) -> Iterator[Page]:
        """All objects below a folder (empty: the root), a page at a time; a page may be empty."""
        start: dict[str, str] = {}
        while True:
            keys, page = list_objects(self._fs, Bucket=self._bucket, Prefix=self._of(folder), MaxKeys=AT_ONCE, **start)
            yield [(key.removeprefix(self._prefix), size) for key, size in keys]
            if not page.get("IsTruncated"):
                return
            start = {"ContinuationToken": page["NextContinuationToken"]}

    def directly(self, folder: str) -> Page:
        """The names directly in a folder with their bytes; those of folders end with `/`, and have none."""
        found: list[tuple[str, int]] = []
        prefix = self._of(folder)
        start: dict[str, str] = {}
        while True:
            page = self._fs.call_s3(
                "list_objects_v2", Bucket=self._bucket, Prefix=prefix, Delimiter="/", MaxKeys=AT_ONCE, **start
            )
            found += [(one["Prefix"].removeprefix(prefix), 0) for one in page.get("CommonPrefixes", ())]
            found += [(one["Key"].removeprefix(prefix), one["Size"]) for one in page.get("Contents", ())]
            if page.get("IsTruncated"):
                start = {"ContinuationToken": page["NextContinuationToken"]}
                continue
            return [(name, size) for name, size in found if name]  # the marker of the folder has none

    def copy(self, source: Objects, path: str) -> None:
        """Copy an object of another root with the same client, under the same path."""
        origin = {"Bucket": source._bucket, "Key": f"{source._prefix}{path}"}
        self._fs.call_s3("copy_object", Bucket=self._bucket, Key=f"{self._prefix}{path}", CopySource=origin)

    def _of(self, folder: str) -> str:
        """The prefix of all keys below a folder; empty: the root."""
        return f"{self._prefix}{folder}/" if folder else self._prefix

    def delete(self, paths: Sequence[str]) -> Mapping[str, tuple[str, str]]:
        """Delete at most `AT_ONCE` objects; return S3's code and message for each that S3 did not delete. S3 counts a
        missing object as deleted."""
        keys = [f"{self._prefix}{path}" for path in paths]
        together = [{"Key": key} for key in keys if not _UNSPEAKABLE.search(key)]
        answer: Mapping[str, Any] = {}
        if together:
            wanted = {"Objects": together, "Quiet": True}
            answer = self._fs.call_s3("delete_objects", Bucket=self._bucket, Delete=wanted)
        for key in filter(_UNSPEAKABLE.search, keys):  # a single such key spoils the call for all
            self._fs.call_s3("delete_object", Bucket=self._bucket, Key=key)
        return {
            error["Key"].removeprefix(self._prefix): (error.get("Code", ""), error.get("Message", ""))
            for error in answer.get("Errors", ())
        }

    def delete_below(self, folder: str) -> Mapping[str, tuple[str, str]]:
        """Delete all objects below a folder, and the markers of folders; return as `delete` does."""
        failed: dict[str, tuple[str, str]] = {}
        folders = {folder}
        for page in self.pages(folder):
            failed.update(self.delete([path for path, _ in page]))
            folders.update(above(path for path, _ in page))
        self.delete_markers([one for one in folders if one == folder or one.startswith(f"{folder}/")])
        return failed

    def delete_markers(self, folders: Collection[str]) -> None:
        """Delete the markers of these folders, the deepest first; no folder may hold anything else."""
        ordered = deepest_first(folders)
        for first in range(0, len(ordered), AT_ONCE):
            self.delete([f"{folder}/" for folder in ordered[first : first + AT_ONCE]])

    def is_bare(self, folder: str) -> bool:
        """Whether nothing but the marker of the folder has its prefix."""
        prefix = self._of(folder)
        page = self._fs.call_s3("list_objects_v2", Bucket=self._bucket, Prefix=prefix, MaxKeys=2)
        return all(one["Key"] == prefix for one in page.get("Contents", ()))
