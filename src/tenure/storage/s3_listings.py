"""Listings of S3 by s3fs's client, of which only names and sizes are read.

Promise: the names and sizes that the client itself would return, with its retries and errors. botocore's parser makes
an object and a date of each entry, and a listing of a million objects takes several times as long with that parser.
This module takes the entries out of a page before botocore parses the page. botocore's parser reads the whole page
where botocore has no `before-parse` event, where the answer is an error, and where the page is not written as all known
servers write pages (keys encoded as in a URL, no comments, no attributes). Other calls of the client are not changed.
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
