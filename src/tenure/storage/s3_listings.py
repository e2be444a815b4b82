"""S3's listings, read for names and sizes only: botocore makes objects and dates of all that a page says, which takes
four times as long as the server does, and a parser of XML alone most of what the server does.

Promise: what s3fs's own client would tell of names and sizes, with its retries and errors; only pages that are asked
for here are read so. Where botocore does not offer its `before-parse` event, or a page is none, or not written as all
known servers write it (keys encoded as in a URL, no comments, no attributes), it is read as usual.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import unquote_plus

_KEYS: Final = "TenureKeys"
_KEY: Final = re.compile(rb"<Key>([!-%'-;=?-~]*)</Key>")  # ASCII but what XML escapes: keys are encoded as in a URL
_SIZE: Final = re.compile(rb"<Size>(\d+)</Size>")
_STRANGE: Final = (b"Contents", b"<!")
"""Where one of these is left, a page needs a parser of XML."""
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
    """Take the objects out of a page, before it is parsed; one that is not written as expected is left as it is."""
    if not _asked_here.get() or response_dict is None or customized_response_dict is None:
        return
    if response_dict.get("status_code") != 200 or _KEYS in customized_response_dict:
        return
    head, *objects = response_dict["body"].split(b"<Contents>")
    rest = [head]
    keys = []
    for one in objects:
        told, end, behind = one.partition(b"</Contents>")
        key, size = _KEY.findall(told), _SIZE.findall(told)
        if not end or len(key) != 1 or len(size) != 1:
            return
        keys.append((unquote_plus(key[0].decode("ascii")), int(size[0])))
        rest.append(behind)
    body = b"".join(rest)
    if b"<EncodingType>url</EncodingType>" not in body or any(sign in body for sign in _STRANGE):
        return
    customized_response_dict[_KEYS] = keys
    response_dict["body"] = body
