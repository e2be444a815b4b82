"""Pins on every store: against removals, replacements, other pins, and lost replies."""

from __future__ import annotations

import pytest

from tenure.coordination.records import Key, Put, Record, Version
from tenure.errors import HandleLocked, HandleNotFound, OutcomeUnknown
from tenure.handles.handle import Handle
from tenure.handles.pins import Pin, Pins, is_pin, pins_in
from tests.faults.lab import AREA, SCOPE, Lab, Member, big
from tests.kit.faulty import Call, Proceed, commits

ONE, TWO = big("one"), big("two")
DEEP = Key("checkpoints/copy")


def pins_of(lab: Lab, member: Member) -> Pins:
    return Pins(member.store, SCOPE, area=AREA, clock=lab.clock)


def wanted(by: str = "root@host") -> Pin:
    return Pin(AREA, Version(""), by, "monday", "audit", blob="", protects="runs/a", copy="runs/b")


def pin(lab: Lab, member: Member, handle: Handle, *, by: str = "root@host") -> tuple[Pin, bool]:
    return pins_of(lab, member).pin(handle.name, wanted(by), expected=handle.version)


@pytest.fixture(autouse=True)
def flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """The laboratory's area lies one level higher than those of checkpoints."""
    monkeypatch.setattr("tenure.handles.pins._DEPTH", 2)


def test_a_pin_outlives_its_maker_and_the_leader(lab: Lab) -> None:
    leader, operator = lab.member("a"), lab.member("b")
    handle = leader.handles.add(leader.lead(), "x", ONE)
    made, is_new = pin(lab, operator, handle)
    assert is_new
    operator.dies()
    leader.dies()
    other = lab.member("c")
    term = other.lead()
    with pytest.raises(HandleLocked, match=r"handle 'things/x' is pinned; release it by tenure checkpoints unpin"):
        other.handles.remove(term, "x")
    assert other.handles.get("x") == ONE
    assert pins_of(lab, other).end("x") == made
    other.handles.remove(term, "x")
    assert lab.audit() == set()


def test_a_known_pin_costs_no_listing_and_its_end_is_noticed(lab: Lab) -> None:
    leader, operator = lab.member("a"), lab.member("b")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)
    pin(lab, operator, handle)
    for _ in range(2):
        with pytest.raises(HandleLocked):
            leader.handles.remove_all(term, [handle])
    before = len(leader.store.calls)
    with pytest.raises(HandleLocked):
        leader.handles.remove_all(term, [handle])
    assert [call.operation for call in leader.store.calls[before:]] == ["read"]
    pins_of(lab, operator).end("x")
    leader.handles.remove_all(term, [handle])
    assert lab.pointers() == {}


def test_a_lock_beside_a_known_pin_is_listed_again(lab: Lab) -> None:
    """A reader's lock ends without a move of the anchor: the writer must look again."""
    leader, operator = lab.member("a"), lab.member("b")
    term = leader.lead()
    pinned, locked = leader.handles.add(term, "p", ONE), leader.handles.add(term, "q", TWO)
    lock = operator.handles.lock("q", session=operator.keeper.session_id)
    pin(lab, operator, pinned)
    with pytest.raises(HandleLocked, match="things/p"):
        leader.handles.remove_all(term, [locked, pinned])
    operator.handles.release(lock)
    with pytest.raises(HandleLocked, match="things/p"):
        leader.handles.remove_all(term, [locked, pinned])
    leader.handles.remove_all(term, [locked])
    assert set(lab.pointers()) == {"p"}


def test_a_handle_has_one_pin(lab: Lab) -> None:
    leader, operator = lab.member("a"), lab.member("b")
    handle = leader.handles.add(leader.lead(), "x", ONE)
    first, _ = pin(lab, operator, handle)
    assert pin(lab, operator, handle, by="somebody@else") == (first, False)
    pins = pins_of(lab, operator)
    assert pins.end("x", only=wanted()) is None, "another pin stays"
    assert pins.end("x") == first
    assert pins.end("x") is None


def test_two_pins_at_the_same_time_are_one(lab: Lab) -> None:
    leader, operator, other = lab.member("a"), lab.member("b"), lab.member("c")
    handle = leader.handles.add(leader.lead(), "x", ONE)

    def other_first(call: Call, proceed: Proceed) -> object:
        assert pin(lab, other, handle, by="other")[1]
        return proceed()

    operator.store.script(other_first, when=commits, times=1)
    found, is_new = pin(lab, operator, handle)
    assert (found.by, is_new) == ("other", False)
    assert len(pins_in(lab.truth.list(SCOPE, "").records)) == 1


def test_a_removal_just_before_the_pin_and_a_pin_just_before_the_removal(lab: Lab) -> None:
    leader, operator = lab.member("a"), lab.member("b")
    term = leader.lead()
    gone, kept = leader.handles.add(term, "x", ONE), leader.handles.add(term, "y", TWO)

    def remove_first(call: Call, proceed: Proceed) -> object:
        leader.handles.remove(term, "x")
        return proceed()

    operator.store.script(remove_first, when=commits, times=1)
    with pytest.raises(HandleNotFound, match="is gone, or was replaced"):
        pin(lab, operator, gone)
    assert not pins_in(lab.truth.list(SCOPE, "").records)

    def pin_first(call: Call, proceed: Proceed) -> object:
        assert pin(lab, operator, kept)[1]
        return proceed()

    leader.store.script(pin_first, when=commits, times=1)
    with pytest.raises(HandleLocked):
        leader.handles.remove(term, "y")
    assert set(lab.pointers()) == {"y"}


def test_the_blob_of_a_pinned_handle_stays_when_it_is_replaced(lab: Lab) -> None:
    leader, operator = lab.member("a"), lab.member("b")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)
    made, _ = pin(lab, operator, handle)
    assert handle.blob is not None
    assert made.blob == handle.blob.address
    leader.handles.replace(term, handle, TWO)
    assert leader.handles.payload(handle) == ONE
    pins_of(lab, operator).end("x")
    with pytest.raises(HandleNotFound):
        pin(lab, operator, handle)  # as it was read, it is not there any more


@pytest.mark.parametrize("applied", [True, False])
def test_a_lost_reply_is_settled(lab: Lab, applied: bool) -> None:
    leader, operator = lab.member("a"), lab.member("b")
    handle = leader.handles.add(leader.lead(), "x", ONE)

    def lose(call: Call, proceed: Proceed) -> object:
        if applied:
            proceed()
        raise OutcomeUnknown("the reply is lost")

    operator.store.script(lose, when=commits, times=1)
    made, _ = pin(lab, operator, handle)
    operator.store.script(lose, when=commits, times=1)
    assert pins_of(lab, operator).end("x") == made
    assert not pins_in(lab.truth.list(SCOPE, "").records)


def test_a_late_request_to_end_a_pin_ends_no_later_pin(lab: Lab) -> None:
    leader, operator = lab.member("a"), lab.member("b")
    handle = leader.handles.add(leader.lead(), "x", ONE)
    pins = pins_of(lab, operator)
    late: list[Proceed] = []
    pin(lab, operator, handle)

    def delay(call: Call, proceed: Proceed) -> object:
        late.append(proceed)
        raise OutcomeUnknown("it is on its way")

    operator.store.script(delay, when=commits, times=1)
    assert pins.end("x") is not None
    second, is_new = pin(lab, operator, handle)
    assert is_new
    with pytest.raises(Exception, match="refused"):
        late[0]()
    assert pins_in(lab.truth.list(SCOPE, "").records) == [second]


def test_a_pin_changes_while_it_is_as_it_was_read(lab: Lab) -> None:
    leader, operator = lab.member("a"), lab.member("b")
    handle = leader.handles.add(leader.lead(), "x", ONE)
    made, _ = pin(lab, operator, handle)
    pins = pins_of(lab, operator)
    changed = pins.change(made)
    assert changed is not None
    assert pins.change(made) is None, "another command has changed it"
    assert pins_in(lab.truth.list(SCOPE, "").records) == [changed]
    pins.end("x")
    assert pins.change(changed) is None


def test_only_a_record_of_a_pin_is_a_pin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    locked = DEEP.child("000000000001").child("lock-pin-1")
    assert is_pin(Record(locked, b"", Version("1"), None))
    for key in (DEEP.child("lock-pin-1"), Key("records/lock-pin-1"), locked.child("lock-pin-2")):
        assert not is_pin(Record(key, b"", Version("1"), None))
    lock = Put(locked, b"", replaces=None)
    assert not is_pin(Record(lock.key, b"", Version("1"), "session"))  # type: ignore[arg-type] # a session's id
