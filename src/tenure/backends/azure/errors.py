"""What the errors of Azure's client say of a request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from azure.core.exceptions import AzureError, ClientAuthenticationError

from tenure.backends.buckets import Cause, RequestFailed

_CAUSES: Final = {
    "ContainerNotFound": Cause.NO_BUCKET,
    "ContainerBeingDeleted": Cause.NO_BUCKET,
    "ContainerDisabled": Cause.NO_BUCKET,
    "ServerBusy": Cause.PUT_OFF,
}
"""Code of Azure -> the cause."""


@contextmanager
def failures() -> Iterator[None]:
    """All that the client raises for a request becomes RequestFailed."""
    try:
        yield
    except AzureError as error:
        status = int(getattr(error, "status_code", None) or 0)
        code = getattr(error, "error_code", None)
        cause = _CAUSES.get(str(getattr(code, "value", code)))
        if isinstance(error, ClientAuthenticationError) and not status:
            cause = Cause.NO_CREDENTIALS
        raise RequestFailed(error.message.partition("\n")[0], status=status, cause=cause) from error
