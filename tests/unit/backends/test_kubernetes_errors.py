"""The error of a refusal: its cause and its fix, by the words of the server."""

from __future__ import annotations

import pytest

from tenure.backends.kubernetes.errors import NoAnswer, Refused, outcome, unavailable
from tenure.errors import AccessDenied, OutcomeUnknown, StoreUnavailable

RIGHT = 'leases is forbidden: User "x" cannot create resource "leases" in API group "coordination.k8s.io"'


@pytest.mark.parametrize(
    ("status", "words", "fix"),
    [
        (403, RIGHT, "give the account this right"),
        (403, "the cluster is frozen", "change the rule that the server names"),
        (
            403,
            "... forbidden: unable to create new content in namespace x because it is being terminated",
            "name another",
        ),
        (403, "... forbidden: exceeded quota: few, requested: count/configmaps=1", "raise the ResourceQuota"),
        (403, 'admission webhook "a.b" denied the request: no owner', "exempt the objects with the label tenure.store"),
        (400, 'admission webhook "a.b" denied the request', "exempt the objects with the label tenure.store"),
        (422, "ValidatingAdmissionPolicy 'p' with binding 'p' denied request", "exempt the objects with the label"),
        (422, "data: Forbidden: field is immutable when `immutable` is set", "create the ConfigMap anew"),
        (401, "Unauthorized", "check the token or certificate"),
    ],
)
def test_a_refusal_names_its_own_fix(status: int, words: str, fix: str) -> None:
    refused = Refused(status, words)
    for told in (unavailable(refused, "open a session"), outcome(refused, "open a session")):
        assert isinstance(told, AccessDenied)
        assert words in told.what
        assert (told.fix or "").startswith(fix)


def test_a_refusal_without_a_known_cause_has_the_words_of_the_server() -> None:
    told = unavailable(Refused(422, "spec: Required value"), "open a session")
    assert not isinstance(told, AccessDenied)
    assert str(told) == "the API server did not open a session: spec: Required value (422)"


@pytest.mark.parametrize("error", [Refused(500, 'failed calling webhook "a.b": timeout'), NoAnswer("silence")])
def test_a_change_without_an_answer_is_not_known(error: Refused | NoAnswer) -> None:
    assert isinstance(outcome(error, "open a session"), OutcomeUnknown)
    assert isinstance(unavailable(error, "read"), StoreUnavailable)
