"""The outcome of a request that ended in an error of gRPC.

Promise: one table, by the code of etcd's answer. A request that etcd refused was not applied. A request without an
answer, or that etcd gave up while its members agreed on it, may have been applied, or may be applied later. One refusal
is none: a transaction that etcd answers with "database space exceeded" may have been applied (`full`).
"""

from __future__ import annotations

from typing import Final

import grpc

from tenure.backends.etcd.fullness import CURE
from tenure.coordination.store_url import NAME_A_USER
from tenure.errors import AccessDenied, OutcomeUnknown, StoreUnavailable

REFUSED: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)
"""Nothing was applied. Every other code leaves the outcome open."""

LEASE_GONE: Final = "requested lease not found"
NO_SPACE: Final = "database space exceeded"
COMPACTED: Final = "required revision has been compacted"
TOKEN_OVER: Final = ("invalid auth token", "auth revision in header is old")


def code_of(error: grpc.RpcError) -> grpc.StatusCode:
    """The code of an answer."""
    code: grpc.StatusCode = error.code()
    return code


def words_of(error: grpc.RpcError) -> str:
    """The words of etcd, or of gRPC."""
    return f"{error.details() or ''} ({code_of(error).name})".strip()


def is_token_over(error: grpc.RpcError) -> bool:
    """Whether etcd refused the token and not the user: a new token may be accepted."""
    return any(words in words_of(error) for words in TOKEN_OVER)


def is_full(error: grpc.RpcError) -> bool:
    """Whether etcd answered that its database is full. A transaction that was answered so may be applied (`full`)."""
    return NO_SPACE in words_of(error)


def is_compacted(error: grpc.RpcError) -> bool:
    """Whether the revision that a request names is compacted."""
    return COMPACTED in words_of(error)


def unavailable(error: grpc.RpcError, what: str) -> StoreUnavailable:
    """For a request of which nothing was applied. `what`: the request."""
    return refused(words_of(error), what)


def refused(words: str, what: str) -> StoreUnavailable:
    """As `unavailable`, by etcd's words alone: a watch is cancelled with words, and without a code."""
    if "permission denied" in words:
        return AccessDenied(f"etcd does not permit to {what}: {words}", fix="give the user's role this prefix")
    if "user name is empty" in words:
        return AccessDenied(f"etcd asks who we are: {words}", fix=NAME_A_USER)
    if "authentication failed" in words or "invalid auth token" in words:
        return AccessDenied(f"etcd does not let in this user: {words}", fix="check the user and its password")
    if "authentication is not enabled" in words:
        return AccessDenied(f"etcd knows no users: {words}", fix="leave user@ out, or enable them")
    if NO_SPACE in words:
        return StoreUnavailable(f"etcd is full, and did not {what}: {words}", fix=CURE)
    return StoreUnavailable(f"etcd did not {what}: {words}")


def outcome(error: grpc.RpcError, what: str) -> StoreUnavailable | OutcomeUnknown:
    """For a request that would change something, was sent, and failed."""
    if code_of(error) in REFUSED:
        return unavailable(error, what)
    return OutcomeUnknown(f"etcd did not say whether it did {what}: {words_of(error)}")
