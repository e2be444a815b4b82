"""S3's listings, read for names and sizes only: botocore makes objects and dates of all that a page says, which takes
four times as long as the server does.

Promise: what s3fs's own client would tell of names and sizes, with its retries and errors; only pages that are asked
for here are read so. Where botocore does not offer its `before-parse` event, or a page is none, they are read as usual.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import unquote_plus
from xml.etree import ElementTree

_KEYS: Final = "TenureKeys"
_asked_here: ContextVar[bool] = ContextVar("asked_here", default=False)
_teaching = threading.Lock()
_taught: weakref.WeakSet[Any] = weakref.WeakSet()
"""The clients that know `_read_page`."""


class QuickListings:
    """Listings by the client of an s3fs. The constructor does no I/O."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs

    def ask(self, **request: Any) -> tuple[Sequence[tuple[str, int]], Mapping[str, Any]]:
        """One page of ListObjectsV2: keys and their sizes, and the answer without these. Raises as s3fs does."""
        self._fs.connect()
        with _teaching:  # all threads share one client
            if self._fs.s3 not in _taught:
                # What is registered so comes before what botocore registers as `before-parse.s3.*`, which parses a page
                # to see whether it is an error.
                self._fs.s3.meta.events.register("before-parse.*.ListObjectsV2", _read_page)
                _taught.add(self._fs.s3)
        # s3fs works in a thread of its own, which takes over the context of the one that calls.
        token = _asked_here.set(True)
        try:
            page: dict[str, Any] = self._fs.call_s3("list_objects_v2", **request)
        finally:
            _asked_here.reset(token)
        keys = page.get(_KEYS)
        if keys is None:
            keys = [(one["Key"], int(one["Size"])) for one in page.get("Contents", ())]
        return keys, page


def _read_page(
    response_dict: dict[str, Any] | None = None, customized_response_dict: dict[str, Any] | None = None, **_: Any
) -> None:
    """Take the objects out of a page, before it is parsed."""
    if not _asked_here.get() or response_dict is None or customized_response_dict is None:
        return
    if response_dict.get("status_code") != 200 or _KEYS in customized_response_dict:
        return
    try:
        root = ElementTree.fromstring(response_dict["body"])
    except ElementTree.ParseError:
        return  # whoever parses it next says what is wrong
    space = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
    plain = root.findtext(f"{space}EncodingType") != "url"
    found = root.findall(f"{space}Contents")
    keys = []
    for one in found:
        key, size = one.findtext(f"{space}Key"), one.findtext(f"{space}Size")
        if key is None or size is None:
            return
        keys.append((key if plain else unquote_plus(key), int(size)))
    for one in found:
        root.remove(one)
    customized_response_dict[_KEYS] = keys
    response_dict["body"] = ElementTree.tostring(root)
