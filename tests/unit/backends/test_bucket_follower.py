"""What a client knows of a scope in a bucket, when answers come late, and when the object was restored."""

from __future__ import annotations

from typing import Any

from tenure.backends.buckets.bucket import SeenJson
from tenure.backends.buckets.followed import BucketFollowed
from tenure.backends.shared.scope_objects import SeenScope
from tenure.backends.shared.scope_state import ScopeState
from tenure.coordination.records import Revision, Scope
from tests.kit.clock import ManualClock


def seen(revision: int, *, origin: str = "o") -> SeenScope[SeenJson]:
    return SeenScope(SeenJson({}, f"{origin}{revision}"), ScopeState(origin, revision))


class Asked:
    """A bucket that gives one answer, after what happens meanwhile."""

    def __init__(self) -> None:
        self.answer = seen(9)
        self.meanwhile: SeenScope[SeenJson] | None = None
        self.followed = BucketFollowed(Scope("rows"), ask=self._ask, judge=lambda state: False, clock=ManualClock())

    def _ask(self, known: Any) -> SeenScope[SeenJson]:
        if self.meanwhile is not None:
            self.followed.take(self.meanwhile)
        return self.answer

    def read(self, answer: SeenScope[SeenJson], *, meanwhile: SeenScope[SeenJson] | None = None) -> int:
        """The revision that is known after a read."""
        self.answer, self.meanwhile = answer, meanwhile
        self.followed.read()
        known = self.followed.known
        assert known is not None
        return known.state.revision


def test_an_answer_that_is_older_than_what_was_known_before_the_question_is_of_a_restored_object() -> None:
    """A client kept its picture of a dead leader until the revisions had passed it."""
    asked = Asked()
    assert asked.read(seen(9)) == 9
    asked.followed.seen(Revision(9))
    assert asked.read(seen(4)) == 4
    assert asked.followed.glance("").revision == 4, "what the client has seen before is no more"
    assert asked.read(seen(5)) == 5
    assert asked.followed.reached() == 5


def test_an_answer_that_comes_late_changes_nothing() -> None:
    asked = Asked()
    asked.read(seen(5))
    assert asked.read(seen(5), meanwhile=seen(6)) == 6
    assert asked.read(seen(7)) == 7
    asked.followed.take(seen(6))  # a commit of this client, whose answer took long
    assert asked.read(seen(7)) == 7
