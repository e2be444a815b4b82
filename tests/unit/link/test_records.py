"""Records on the link: whole pictures, in order, and a sender that waits for nobody."""

from __future__ import annotations

import threading
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.clock import SystemClock
from tenure.coordination.records import Key, Record, Scope, SessionId, Version
from tenure.driver.stores import HeardStore
from tenure.errors import StoreUnavailable
from tenure.link import records as records_module
from tenure.link.records import HeardRecords, RecordsSender
from tenure.link.words import AskRecords, GotRecords, Records, Word
from tests.properties import examples

SCOPE = Scope("rows")


def record(key: str, value: bytes = b"{}", *, version: str = "1", session: str | None = None) -> Record:
    return Record(Key(key), value, Version(version), None if session is None else SessionId(session))


class Line:
    """An agent and a driver. Words wait until `deliver`."""

    def __init__(self) -> None:
        self.to_driver: deque[Records] = deque()
        self.to_agent: deque[Word] = deque()
        self.sender = RecordsSender(self._sent)
        self.heard = HeardRecords(self.to_agent.append, clock=SystemClock())

    def _sent(self, word: Word) -> None:
        assert isinstance(word, Records)
        self.to_driver.append(word)

    def step(self) -> bool:
        """Deliver one word, the driver's first. Return whether there was one."""
        if self.to_agent:
            word = self.to_agent.popleft()
            if isinstance(word, AskRecords):
                self.sender.answer(word.number)
            else:
                assert isinstance(word, GotRecords)
                self.sender.taken()
            return True
        if self.to_driver:
            self.heard.take(self.to_driver.popleft())
            return True
        return False

    def deliver(self) -> None:
        while self.step():
            pass

    def asked(self) -> list[Record]:
        """The answer to a question, which a second thread asks."""
        found: list[Record] = []
        asking = threading.Thread(target=lambda: found.extend(self.heard.ask()), daemon=True)
        asking.start()
        asking.join(timeout=0.05)  # an answer from before would be here already
        while asking.is_alive():
            self.deliver()
            asking.join(timeout=0.005)
        return found


def test_a_picture_arrives_whole_and_a_later_picture_changes_it() -> None:
    line = Line()
    first = [record("checkpoints/a/1", b"\0\xff", version="7"), record("epoch", b"e"), record("leader", session="0x1")]
    line.sender.offer(first)
    line.deliver()
    assert line.heard.last() == sorted(first, key=lambda one: one.key)
    line.sender.offer([first[0], record("epoch", b"f", version="2")])
    line.deliver()
    assert line.heard.last() == [first[0], record("epoch", b"f", version="2")]


def test_a_store_without_records_is_a_picture_too() -> None:
    line = Line()
    line.sender.offer([])
    assert line.asked() == []


def test_a_large_picture_goes_in_parts_and_is_seen_when_all_have_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "_PART", 100)
    line = Line()
    line.sender.offer([record("epoch", b"old")])
    line.deliver()
    line.sender.offer([record("epoch", b"new"), record("declared", b"x" * 1000)])
    seen = set()
    while line.step():
        seen.add(tuple(one.value[:3] for one in line.heard.last()))
    assert seen == {(b"old",), (b"xxx", b"new")}


def test_a_driver_that_takes_nothing_is_sent_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the agent never waits for it, and no word to it has to wait behind records."""
    monkeypatch.setattr(records_module, "_PART", 100)
    line = Line()
    for batch in range(50):
        line.sender.offer([record(f"checkpoints/a/{batch}", b"x" * 1000)])
    line.sender.answer(3)
    assert len(line.to_driver) == 1
    line.deliver()
    assert [one.key for one in line.heard.last()] == ["checkpoints/a/49"]


def test_an_answer_is_no_older_than_its_question() -> None:
    line = Line()
    line.sender.offer([record("epoch", b"1")])
    line.deliver()
    line.sender.offer([record("epoch", b"2")])  # on its way when the question is asked
    assert [one.value for one in line.asked()] == [b"2"]
    assert [one.value for one in line.asked()] == [b"2"]  # answered, too, where nothing has changed


def test_a_question_before_any_records_is_answered_by_the_first() -> None:
    line = Line()
    found: list[Record] = []
    asking = threading.Thread(target=lambda: found.extend(line.heard.ask()), daemon=True)
    asking.start()
    while not line.to_agent:
        asking.join(timeout=0.005)
    question = line.to_agent.popleft()
    assert isinstance(question, AskRecords)
    line.sender.offer([record("epoch")], answers=question.number)
    line.deliver()
    asking.join()
    assert found == [record("epoch")]


def test_an_agent_that_sends_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "PATIENCE_S", 0.01)
    with pytest.raises(StoreUnavailable, match="the agent has sent no records"):
        Line().heard.last()


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.one_of(
            st.dictionaries(st.sampled_from("abcd"), st.binary(max_size=40), max_size=4), st.integers(0, 3), st.none()
        ),
        max_size=12,
    )
)
def test_whatever_comes_between_the_last_picture_arrives(steps: list[dict[str, bytes] | int | None]) -> None:
    """A dict: a look of the agent. A number: so many words are delivered. None: a question."""
    line, looked = Line(), [record("first")]
    line.sender.offer(looked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records_module, "_PART", 30)
        for number, step in enumerate(steps):
            if isinstance(step, dict):
                looked = [record(key, value) for key, value in sorted(step.items())]
                line.sender.offer(looked)
            elif step is None:
                line.to_agent.append(AskRecords(number + 1))
            else:
                for _ in range(step):
                    line.step()
        line.deliver()
    assert line.heard.last() == looked


def test_the_store_of_a_standby_reads_what_was_heard_and_refuses_all_else() -> None:
    line = Line()
    line.sender.offer([record("checkpoints/a/1", b"1"), record("checkpoints/b/1", b"2"), record("epoch", b"3")])
    line.deliver()
    store = HeardStore(line.heard)
    assert [one.value for one in store.glance(SCOPE, "checkpoints").records] == [b"1", b"2"]
    line.heard.ask = line.heard.last  # type: ignore[method-assign] # nobody answers here
    assert [one.value for one in store.list(SCOPE).records] == [b"1", b"2", b"3"]
    assert store.read(SCOPE, Key("epoch")) == record("epoch", b"3")
    assert store.read(SCOPE, Key("leader")) is None
    with pytest.raises(StoreUnavailable, match="makes no request"):
        store.commit(SCOPE, guards=(), writes=())
