"""What the errors of pyiceberg and of its catalogs mean.

Promise: each error becomes one of ours. The outcome of a commit is open after any of them: its writer reads the table
again. A catalog or a storage that is away is StorageError, as are other writers; a refusal is QueryFailed.
"""

from __future__ import annotations

from typing import Final

from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NotInstalledError,
    RESTError,
    WaitingForLockException,
)

from tenure.errors import QueryFailed, StorageError, TenureError, UsageError
from tenure.wording import on_one_line

_AWAY: Final = (OSError, RESTError, WaitingForLockException)
_CLIENTS: Final = frozenset({"sqlalchemy", "botocore", "thrift", "google", "urllib3", "tenacity"})
"""Libraries whose errors come from the server of a catalog."""
_LONGEST: Final = 400


def failure(what: str, error: Exception) -> TenureError:
    """Our error for an error of pyiceberg. `what`: the call that failed."""
    if isinstance(error, TenureError):
        return error
    text = on_one_line(str(error) or type(error).__name__)[:_LONGEST]
    if isinstance(error, CommitFailedException):
        return StorageError(f"{what}: {text}", fix="see that other writers pause between commits")
    if isinstance(error, NotInstalledError):
        return UsageError(f"{what}: {text}", fix="install the packages of that catalog")
    if isinstance(error, BadRequestError):
        return QueryFailed(f"{what}: {text}")
    if isinstance(error, _AWAY) or type(error).__module__.partition(".")[0] in _CLIENTS:
        return StorageError(f"{what}: {text}", fix="see that the catalog and the storage answer")
    return QueryFailed(f"{what}: {type(error).__name__}: {text}")
