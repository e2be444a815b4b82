"""The requests to Google Cloud Storage, by its JSON API; see `ServiceClient`. A tag is the generation of an object.

Google's own client of storage repeats requests and hides the clock of the service; only its library of credentials is
used. An object says that no cache may keep it, since a bucket that everybody may read is cached otherwise.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote

import google.auth
import requests
from google.auth.transport.requests import AuthorizedSession

from tenure.backends.buckets import BucketPlace
from tenure.backends.gcs.errors import check, failures

_GOOGLE: Final = "https://storage.googleapis.com"
_RIGHTS: Final = ("https://www.googleapis.com/auth/devstorage.read_write",)
_EMULATOR: Final = "STORAGE_EMULATOR_HOST"
"""The variable of Google's clients for another server, which asks for no credentials."""


class GcsClient:
    """The requests to one bucket."""

    def __init__(self, place: BucketPlace, request_s: float) -> None:
        self._timeout = (place.connect_s(request_s), request_s)
        self._objects = f"/storage/v1/b/{quote(place.bucket, safe='')}/o"
        emulator = os.environ.get(_EMULATOR, "").rstrip("/")
        self._session: Any
        if emulator:
            self._server = emulator if "://" in emulator else f"http://{emulator}"
            self._session = requests.Session()
        else:
            self._server = _GOOGLE
            with failures():
                credentials, _ = google.auth.default(scopes=_RIGHTS)
            self._session = AuthorizedSession(credentials, refresh_timeout=request_s)

    def get(self, key: str, *, unless: str | None) -> tuple[bytes, str]:
        condition = {} if unless is None else {"ifGenerationNotMatch": unless}
        answer = self._ask("GET", self._path(key), {"alt": "media", **condition})
        return answer.content, str(answer.headers["x-goog-generation"])

    def put(self, key: str, content: bytes, *, replaces: str | None) -> str:
        parameters = {"uploadType": "multipart", "fields": "generation", "ifGenerationMatch": replaces or "0"}
        about = {"name": key, "contentType": "application/json", "cacheControl": "no-store"}
        boundary = secrets.token_hex(16)
        lines = (
            f"--{boundary}",
            "Content-Type: application/json; charset=UTF-8",
            "",
            json.dumps(about),
            f"--{boundary}",
            "Content-Type: application/json",
            "",
            "",
        )
        body = "\r\n".join(lines).encode() + content + f"\r\n--{boundary}--\r\n".encode()
        headers = {"Content-Type": f"multipart/related; boundary={boundary}"}
        answer = self._ask("POST", f"/upload{self._objects}", parameters, data=body, headers=headers)
        with failures():
            return str(answer.json()["generation"])

    def delete(self, key: str) -> None:
        self._ask("DELETE", self._path(key), {})

    def ages(self, prefix: str) -> Iterator[tuple[str, timedelta]]:
        parameters = {"prefix": prefix, "fields": "items(name,updated),nextPageToken"}
        while True:
            answer = self._ask("GET", self._objects, parameters)
            now = parsedate_to_datetime(answer.headers["date"])
            with failures():
                page = answer.json()
            for one in page.get("items", ()):
                yield one["name"], now - datetime.fromisoformat(one["updated"])
            if not page.get("nextPageToken"):
                return
            parameters["pageToken"] = page["nextPageToken"]

    def close(self) -> None:
        self._session.close()

    def _path(self, key: str) -> str:
        return f"{self._objects}/{quote(key, safe='')}"

    def _ask(self, method: str, path: str, parameters: dict[str, str], **more: Any) -> Any:
        """The answer to one request, which is sent once. Raises RequestFailed."""
        with failures():
            answer = self._session.request(
                method,
                f"{self._server}{path}",
                params=parameters,
                timeout=self._timeout,
                allow_redirects=False,
                **more,
            )
            check(answer)
            return answer
