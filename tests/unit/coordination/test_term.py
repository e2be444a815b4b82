"""A term is data, and over means over."""

from __future__ import annotations

import json

import pytest

from tenure.coordination.records import Exact, Scope, Version
from tenure.coordination.session import Liveness
from tenure.coordination.term import EPOCH, LEADER, Term
from tenure.errors import UsageError
from tests.kit.clock import ManualClock


def liveness() -> Liveness:
    return Liveness(clock=ManualClock(), until_s=10)


def term() -> Term:
    return Term(Scope("s"), 7, "member", Version("11"), Version("12"), liveness())


def test_it_presents_both_records_as_they_were_written() -> None:
    assert term().guards() == (Exact(LEADER, Version("11")), Exact(EPOCH, Version("12")))


def test_another_process_presents_the_same_term() -> None:
    copy = Term.from_json(term().to_json(), liveness=liveness())
    assert copy == term()
    assert copy.guards() == term().guards()


def test_whether_it_is_believed_in_is_no_part_of_the_data() -> None:
    ended = term()
    ended.liveness.end("closed")
    assert ended.lost
    assert not Term.from_json(ended.to_json(), liveness=liveness()).lost


@pytest.mark.parametrize("missing", ["scope", "epoch", "holder", "leader", "epoch_record"])
def test_a_field_that_is_missing_is_named(missing: str) -> None:
    found = json.loads(term().to_json())
    del found[missing]
    with pytest.raises(UsageError, match=missing):
        Term.from_json(json.dumps(found), liveness=liveness())


@pytest.mark.parametrize("text", ["", "[]", "null", "7", '{"scope": "a/b"}', '{"scope": 7}', "{"])
def test_what_is_no_term_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        Term.from_json(text, liveness=liveness())
