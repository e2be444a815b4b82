"""Objects in S3, as s3fs does not offer them: many at once, in pages, and the empty ones that stand for folders.

Promise: what `delete` was not told to be failed is gone. Each key comes once, in the server's order. An object whose
key ends with `/` is a folder to Hadoop, and to servers that keep folders: it goes when nothing else has its prefix.
Errors are those of the client.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from tenure.storage.names import above, deepest_first
from tenure.storage.s3_listings import QuickListings

AT_ONCE: Final = 1000
"""Keys of one call: S3's limit of a page, and of a deletion."""

_UNSPEAKABLE: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot carry."""

Page = Sequence[tuple[str, int]]
"""Paths below the root and sizes in bytes."""


class Objects:
    """The objects below `bucket/prefix`. `fs`: s3fs."""

    def __init__(self, fs: Any, root: str) -> None:
        self._fs = fs
        self._listings = QuickListings(fs)
        self._bucket, _, prefix = root.partition("/")
        self._prefix = f"{prefix}/" if prefix else ""

    def pages(self, folder: str) -> Iterator[Page]:
        """All objects below a folder (empty: the root), a page at a time; a page may be empty."""
        start: dict[str, str] = {}
        while True:
            keys, page = self._listings.ask(Bucket=self._bucket, Prefix=self._of(folder), MaxKeys=AT_ONCE, **start)
            yield [(key.removeprefix(self._prefix), size) for key, size in keys]
            if not page.get("IsTruncated"):
                return
            start = {"ContinuationToken": page["NextContinuationToken"]}

    def _of(self, folder: str) -> str:
        """What all keys below a folder begin with; empty: the root."""
        return f"{self._prefix}{folder}/" if folder else self._prefix

    def delete(self, paths: Sequence[str]) -> Mapping[str, tuple[str, str]]:
        """Delete at most `AT_ONCE` of them; return those that could not be: S3's code and message. One that is not
        there is fine."""
        if not paths:
            return {}
        told = [path for path in paths if not _UNSPEAKABLE.search(path)]
        answer: Mapping[str, Any] = {}
        if told:
            wanted = {"Objects": [{"Key": f"{self._prefix}{path}"} for path in told], "Quiet": True}
            answer = self._fs.call_s3("delete_objects", Bucket=self._bucket, Delete=wanted)
        for path in paths:
            if _UNSPEAKABLE.search(path):  # one of them would spoil the call for all
                self._fs.call_s3("delete_object", Bucket=self._bucket, Key=f"{self._prefix}{path}")
        return {
            error["Key"].removeprefix(self._prefix): (error.get("Code", ""), error.get("Message", ""))
            for error in answer.get("Errors", ())
        }

    def delete_below(self, folder: str) -> Mapping[str, tuple[str, str]]:
        """Delete all below a folder, and what stands for the folder; return those that could not be."""
        failed: dict[str, tuple[str, str]] = {}
        folders = {folder}
        for page in self.pages(folder):
            failed.update(self.delete([path for path, _ in page]))
            folders.update(above(path for path, _ in page))
        self.delete_markers([one for one in folders if one == folder or one.startswith(f"{folder}/")])
        return failed

    def delete_markers(self, folders: Collection[str]) -> None:
        """Delete what stands for these folders, the deepest first; none of them may have anything else in it."""
        ordered = deepest_first(folders)
        for first in range(0, len(ordered), AT_ONCE):
            self.delete([f"{folder}/" for folder in ordered[first : first + AT_ONCE]])

    def is_bare(self, folder: str) -> bool:
        """Whether nothing has its prefix but what stands for the folder itself."""
        prefix = self._of(folder)
        page = self._fs.call_s3("list_objects_v2", Bucket=self._bucket, Prefix=prefix, MaxKeys=2)
        return all(one["Key"] == prefix for one in page.get("Contents", ()))
