"""Objects in S3 beyond the interface of s3fs: listings, deletions of many at once, and the markers of folders.

Promise: each object that `delete` does not return is gone. Each key comes once, in the server's order. An object whose
key ends with `/` is the marker of a folder to Hadoop, and to servers that keep folders: it goes when nothing else has
its prefix. Errors are those of the client.

A listing has the names and sizes that the client itself would return, with its retries. botocore's parser makes
an object and a date of each entry, and a listing of a million objects takes several times as long with that parser.
This module takes the entries out of a page before botocore parses the page. botocore's parser reads the whole page
where botocore has no `before-parse` event, where the answer is an error, and where the page is not written as all known
servers write pages (keys encoded as in a URL, no comments, no attributes). Other calls of the client are not changed.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import unquote_plus

from tenure.storage.names import above, deepest_first

_KEYS: Final = "TenureKeys"
_KEY: Final = re.compile(rb"<Key>([!-%'-;=?-~]*)</Key>")  # ASCII but what XML escapes: keys are encoded as in a URL
_SIZE: Final = re.compile(rb"<Size>(\d+)</Size>")
_STRANGE: Final = (b"Contents", b"<!")
"""A page with such bytes outside of its entries needs a parser of XML."""
_asked_here: ContextVar[bool] = ContextVar("asked_here", default=False)
_teaching = threading.Lock()
_taught: weakref.WeakSet[Any] = weakref.WeakSet()
"""The clients that know `_read_page`."""


def list_objects(fs: Any, **request: Any) -> tuple[Sequence[tuple[str, int]], Mapping[str, Any]]:
    """One page of ListObjectsV2: keys and their sizes, and the answer without the entries. Raises as s3fs does."""
    fs.connect()
    with _teaching:  # all threads share one client
        if fs.s3 not in _taught:
            # This handler runs before botocore's own for `before-parse.s3.*`, which parses each page to find errors.
            fs.s3.meta.events.register("before-parse.*.ListObjectsV2", _read_page)
            _taught.add(fs.s3)
    # s3fs works in a thread of its own, which takes over the context of the calling thread.
    token = _asked_here.set(True)
    try:
        page: dict[str, Any] = fs.call_s3("list_objects_v2", **request)
    finally:
        _asked_here.reset(token)
    keys = page.get(_KEYS)
    if keys is None:
        keys = [(one["Key"], int(one["Size"])) for one in page.get("Contents", ())]
    return keys, page


def _read_page(
    response_dict: dict[str, Any] | None = None, customized_response_dict: dict[str, Any] | None = None, **_: Any
) -> None:
    """Take the entries out of a page before botocore parses it. A page with another spelling stays as it is."""
    if not _asked_here.get() or response_dict is None or customized_response_dict is None:
        return
    if response_dict.get("status_code") != 200 or _KEYS in customized_response_dict:
        return
    head, *objects = response_dict["body"].split(b"<Contents>")
    rest = [head]
    keys = []
    for one in objects:
        entry, end, behind = one.partition(b"</Contents>")
        key, size = _KEY.findall(entry), _SIZE.findall(entry)
        if not end or len(key) != 1 or len(size) != 1:
            return
        keys.append((unquote_plus(key[0].decode("ascii")), int(size[0])))
        rest.append(behind)
    body = b"".join(rest)
    if b"<EncodingType>url</EncodingType>" not in body or any(sign in body for sign in _STRANGE):
        return
    customized_response_dict[_KEYS] = keys
    response_dict["body"] = body


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
