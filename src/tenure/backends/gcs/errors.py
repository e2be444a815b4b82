"""What an answer of Google Cloud Storage, or an error of its client, says of a request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from google.auth.exceptions import GoogleAuthError
from requests import RequestException

from tenure.backends.buckets import Cause, RequestFailed

_NOT_DONE: Final = 300
_NO_BUCKET: Final = "bucket does not exist"
"""In the message of a 404, whose reason is the same for a bucket and for an object."""


@contextmanager
def failures() -> Iterator[None]:
    """All that the client raises for a request becomes RequestFailed."""
    try:
        yield
    except GoogleAuthError as error:  # while it fetched a token: the request was not sent, or answered with 401
        raise RequestFailed(str(error), cause=Cause.PUT_OFF if error.retryable else Cause.NO_CREDENTIALS) from error
    except RequestException as error:
        raise RequestFailed(str(error)) from error


def check(answer: Any) -> None:
    """Raises RequestFailed: the service did not do it."""
    status = int(answer.status_code)
    if status >= _NOT_DONE:
        said = _message(answer)
        raise RequestFailed(f"{said} ({status})", status=status, cause=Cause.NO_BUCKET if _NO_BUCKET in said else None)


def _message(answer: Any) -> str:
    """The service's words: of its JSON, else the text of the answer."""
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return str(answer.text).strip() or str(answer.reason)
