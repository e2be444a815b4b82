"""Each row of the table from etcd's answers to ours."""

from __future__ import annotations

import grpc
import pytest

from tenure.backends.etcd.errors import REFUSED, outcome, refused, unavailable
from tenure.errors import AccessDenied, OutcomeUnknown, StoreUnavailable


class Answer(grpc.RpcError):  # type: ignore[misc] # gRPC ships no type information
    """An error as gRPC raises it."""

    def __init__(self, code: grpc.StatusCode, details: str | None) -> None:
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str | None:
        return self._details


Code = grpc.StatusCode


@pytest.mark.parametrize(
    ("code", "details", "line"),
    [
        (
            Code.PERMISSION_DENIED,
            "etcdserver: permission denied",
            "etcd does not permit to look: etcdserver: permission",
        ),
        (
            Code.INVALID_ARGUMENT,
            "etcdserver: user name is empty",
            "etcd asks who we are: etcdserver: user name is empty",
        ),
        (
            Code.INVALID_ARGUMENT,
            "etcdserver: authentication failed, invalid user ID or password",
            "etcd does not let in this user: etcdserver: authentication failed",
        ),
        (Code.UNAUTHENTICATED, "etcdserver: invalid auth token", "etcd does not let in this user: etcdserver: invalid"),
        (
            Code.FAILED_PRECONDITION,
            "etcdserver: authentication is not enabled",
            "etcd knows no users: etcdserver: auth",
        ),
        (
            Code.RESOURCE_EXHAUSTED,
            "etcdserver: mvcc: database space exceeded",
            "etcd is full, and did not look: etcdserver: mvcc: database",
        ),
        (Code.RESOURCE_EXHAUSTED, "etcdserver: too many requests", "etcd did not look: etcdserver: too many requests"),
        (Code.UNAVAILABLE, None, "etcd did not look: (UNAVAILABLE)"),
    ],
)
def test_what_an_answer_says_of_a_request_that_was_not_applied(code: grpc.StatusCode, details: str, line: str) -> None:
    told = str(unavailable(Answer(code, details), "look"))
    assert told.startswith(line)
    assert code.name in told


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("etcdserver: permission denied", AccessDenied),
        ("etcdserver: user name is empty", AccessDenied),
        ("etcdserver: authentication failed, invalid user ID or password", AccessDenied),
        ("etcdserver: invalid auth token", AccessDenied),
        ("etcdserver: authentication is not enabled", AccessDenied),
        ("etcdserver: mvcc: database space exceeded", StoreUnavailable),
        ("etcdserver: no leader", StoreUnavailable),
    ],
)
def test_what_waiting_does_not_help(words: str, kind: type[StoreUnavailable]) -> None:
    assert type(refused(words, "look")) is kind


def test_a_watch_is_refused_with_words_alone() -> None:
    told = str(refused("etcdserver: permission denied", "watch"))
    assert told == ("etcd does not permit to watch: etcdserver: permission denied; give the user's role this prefix")


@pytest.mark.parametrize(
    "code", [Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.UNKNOWN, Code.INTERNAL, Code.ABORTED]
)
def test_what_leaves_it_open_whether_a_request_was_applied(code: grpc.StatusCode) -> None:
    assert code not in REFUSED
    told = outcome(Answer(code, "it broke"), "commit")
    assert isinstance(told, OutcomeUnknown)
    assert code.name in str(told)


def test_a_write_that_was_refused_was_not_applied() -> None:
    assert isinstance(outcome(Answer(Code.RESOURCE_EXHAUSTED, "it is full"), "commit"), StoreUnavailable)
