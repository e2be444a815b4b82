"""How each end of a plan is brought about. One function a kind; what it does is in `plan.END_KINDS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tenure.errors import StoreError, UsageError
from tests.kit.waiting import NEVER_S
from tests.soak.checks import check_quiet
from tests.soak.inputs import feed
from tests.soak.journal import happens
from tests.soak.places import Transactional
from tests.soak.plan import IN_TRANSACTION, End, Moment
from tests.soak.scene import TTL_S, Scene, StuckError
from tests.soak.slots import Slot

_MOMENT_S: Final = 8.0
"""How long a moment is waited for; then it is as good as any."""
_LEADER_S: Final = 150.0
_ABLE_S: Final = 150.0
_OTHER_S: Final = TTL_S + 15.0
"""How long a stopped leader is left alone when nobody else leads: it may have been stopped inside SQLite's lock."""
_OBEYS_S: Final = 60.0
_IDLE_S: Final = 150.0
_TRIES: Final = 20
_HOLDS_S: Final = 0.5
"""A transaction whose statement was running when its client was stopped is silent by then."""


def strike(scene: Scene, end: End) -> str:
    """Bring an end about; return what was done, in words. Raises StuckError."""
    return _HOW[end.kind](scene, end)


def _leader(scene: Scene, end: End) -> Slot:
    """Who leads at the moment of the end."""
    slot = scene.wait(scene.leader, seconds=_LEADER_S, what="a leader")
    if end.able:
        slot = _beside_an_able_one(scene)
    _await(scene, end.at)
    return scene.leader() or slot


def _beside_an_able_one(scene: Scene) -> Slot:
    """Who leads, once the other one could take over."""

    def found() -> Slot | None:
        slot = scene.leader()
        return slot if slot is not None and scene.other(slot).able(scene.journal) else None

    return scene.wait(found, seconds=_ABLE_S, what="a leader and a standby that is able")


def _await(scene: Scene, moment: Moment) -> bool:
    """Wait for the moment; return whether it came. A grant is waited for from the last grant on that nobody used."""
    if moment.after != "now":
        mark = len(scene.journal.events)
        if moment.after == "grant" and (last := scene.journal.last("TermWon")) is not None:
            after = scene.journal.last("BatchStarted", since=last[0])
            mark = last[0] if after is None else mark
        query = scene.plan.queries[moment.query % len(scene.plan.queries)].name

        def came() -> bool:
            return any(happens(moment, event, query=query) for event in scene.journal.events[mark:])

        if not scene.wait_softly(came, seconds=_MOMENT_S):
            return False
    scene.rest(moment.delay_ms / 1000)
    return True


def _another_leads(scene: Scene, than: Slot, *, seconds: float = _OTHER_S) -> bool:
    """Wait until another one won a term; return whether it did."""
    mark = len(scene.journal.events)

    def won() -> bool:
        return any(e.kind == "TermWon" and e.member != than.name for e in scene.journal.events[mark:])

    return scene.wait_softly(won, seconds=seconds)


def _after(slot: Slot, end: End) -> None:
    """What comes after the end of a member."""
    slot.again_s = end.again_ms / 1000
    slot.next_until_idle = end.until_idle


def _said(slot: Slot, scene: Scene) -> str:
    return f"{slot.name} (epoch {scene.journal.newest_epoch()})"


def _kill(scene: Scene, end: End) -> str:
    slot = _leader(scene, end)
    _after(slot, end)
    said = _said(slot, scene)
    return f"the {slot.kill(end.part, scene.journal)} of {said} killed"


def _kill_standby(scene: Scene, end: End) -> str:
    leader = scene.wait(scene.leader, seconds=_LEADER_S, what="a leader")
    if end.able:
        leader = _beside_an_able_one(scene)
    _await(scene, end.at)
    slot = scene.other(scene.leader() or leader)
    _after(slot, end)
    return f"the {slot.kill(end.part, scene.journal)} of {slot.name}, which stands by, killed"


def _kill_both(scene: Scene, end: End) -> str:
    first = _leader(scene, end)
    for slot in (first, scene.other(first)):
        _after(slot, end)
        slot.kill("host", scene.journal)
    return "all members killed"


def _pause(scene: Scene, end: End) -> str:
    _beside_an_able_one(scene)
    slot = _leader(scene, end)
    part = "host" if end.part == "jvm" else end.part
    said = _said(slot, scene)
    slot.pause(part, scene.journal)
    led = _another_leads(scene, slot)
    came = led and _await(scene, end.wake)
    slot.wake()
    when = "when nobody else had led" if not led else "in time" if came else "late"
    return f"the {part} of {said} stopped, woken {when}"


def _pause_in_transaction(scene: Scene, end: End) -> str:
    """The host, since a driver that is alone may be replaced before its connection is known to be silent."""
    places = [place for place in scene.places.values() if isinstance(place, Transactional)]
    if not places:
        return _pause(scene, end)
    _beside_an_able_one(scene)
    for _ in range(_TRIES):
        scene.wait_softly(lambda: any(place.moves() for place in places), seconds=_MOMENT_S)
        slot = scene.wait(scene.leader, seconds=_LEADER_S, what="a leader")
        said, struck = _said(slot, scene), slot.struck
        slot.pause("host", scene.journal)
        inside = scene.wait_softly(lambda: any(place.holds() for place in places), seconds=_HOLDS_S)
        if inside:
            break
        slot.wake()  # it had committed before it was stopped, and leads as before
        slot.struck = struck
    else:
        return f"{said} was never stopped inside a transaction"
    led = _another_leads(scene, slot)
    _await(scene, end.wake)
    slot.wake()
    return f"{said} stopped inside a transaction, {'another led' if led else 'nobody led'}"


def _pause_two(scene: Scene, end: End) -> str:
    _beside_an_able_one(scene)
    first = _leader(scene, end)
    first.pause("host", scene.journal)
    if not _another_leads(scene, first):
        first.wake()
        return f"{first.name} stopped, woken when nobody else had led"
    second = scene.other(first)
    _await(scene, end.wake)
    second.pause("host", scene.journal)
    first.wake()
    led = _another_leads(scene, second)
    _await(scene, end.wake)
    second.wake()
    return f"{first.name} stopped, then {second.name}; woken in this order; {'both led' if led else 'one led'}"


def _term(scene: Scene, end: End) -> str:
    slot = _leader(scene, end)
    said = _said(slot, scene)
    _terminate(scene, (slot,), end)
    return f"{said} asked to end"


def _terminate(scene: Scene, asked: Sequence[Slot], end: End) -> None:
    """Ask members to end, and wait until they have. Raises StuckError."""
    processes = [slot.member for slot in asked]
    for slot in asked:
        _after(slot, end)
        slot.stay_down = True
        slot.terminate(scene.journal)
    try:
        scene.wait(lambda: not any(one.running for one in processes), seconds=_OBEYS_S, what="members that end")
    finally:
        for slot in asked:
            slot.stay_down = False


def _term_both(scene: Scene, end: End) -> str:
    first = _leader(scene, end)
    _terminate(scene, (first, scene.other(first)), end)
    return "all members asked to end"


def _idle(scene: Scene, end: End) -> str:
    """The standby is started anew as one that ends by idleness, and becomes the leader."""
    leader = _beside_an_able_one(scene)
    slot = scene.other(leader)
    _terminate(scene, (slot,), End("term", until_idle=True))
    scene.wait(lambda: scene.slots[slot.name].able(scene.journal), seconds=_ABLE_S, what=f"{slot.name} to be able")
    leader = scene.leader() or leader
    if leader.name != slot.name:
        _await(scene, end.at)
        leader.kill(end.part, scene.journal)
    process = scene.slots[slot.name].member
    with scene.fasting():
        _until_idle(scene, lambda: not process.running, what=f"{slot.name} to end by idleness")
    return f"{leader.name} killed, {slot.name} ended by idleness"


def _quiet(scene: Scene, end: End) -> str:
    """The leader ends when everything is in the sinks; what was taken is moved away at once."""
    _beside_an_able_one(scene)
    with scene.fasting():
        check_quiet(scene)
        slot = scene.wait(scene.leader, seconds=_LEADER_S, what="a leader")
        if end.how == "kill":
            _after(slot, end)
            slot.kill(end.part, scene.journal)
        else:
            _terminate(scene, (slot,), end)
        scene.move_quiet()
    return f"{slot.name}, idle, {'killed' if end.how == 'kill' else 'asked to end'}"


def _night(scene: Scene, end: End) -> str:
    """All members end; what was taken is moved away before others are started."""
    slot = scene.wait(scene.leader, seconds=_LEADER_S, what="a leader")
    with scene.fasting():
        both = (slot, scene.other(slot))
        if end.how == "idle":
            _terminate(scene, both, End("term", until_idle=True))
            feed(scene.inputs)()
            _await_both_idle(scene)
            check_quiet(scene)
        else:
            check_quiet(scene)
            for one in both:
                one.stay_down = True
            if end.how == "kill":
                for one in both:
                    one.kill("host", scene.journal)
            else:
                _terminate(scene, both, end)
        scene.move_quiet()
        for one in scene.slots.values():
            one.stay_down = False
    return f"all members ended by {end.how}, inputs moved, others started"


def _await_both_idle(scene: Scene) -> None:
    """Both run until idle; one leads, ends, and the other one after it. Who ends because inputs are gone runs again."""
    scene.wait(
        lambda: all(s.running and s.until_idle for s in scene.slots.values()), seconds=NEVER_S, what="two starts"
    )

    def ended() -> bool:
        for slot in scene.slots.values():
            slot.stay_down = slot.running or slot.member.exit_code == 0
            slot.next_until_idle = not slot.stay_down
        return all(not slot.running and slot.stay_down for slot in scene.slots.values())

    ended()
    _until_idle(scene, ended, what="both to end by idleness")


def _until_idle(scene: Scene, ended: Callable[[], bool], *, what: str) -> None:
    """Wait as long as batches are committed: on a busy machine, what was fed takes its time. Raises StuckError."""
    while True:
        before = scene.journal.last("BatchCommitted")
        if scene.wait_softly(ended, seconds=_IDLE_S):
            return
        if scene.journal.last("BatchCommitted") == before:
            raise StuckError(f"waited {_IDLE_S:g} s for {what}, and no batch was committed")


def _restart(scene: Scene, end: End) -> str:
    leader = _beside_an_able_one(scene)
    _await(scene, end.at)
    slot = scene.other(leader) if end.part == "agent" else leader

    def ask() -> None:
        with scene.orders() as orders:
            orders.restart(slot.name)

    return _asked(ask, f"a new driver for {slot.name}")


def _switchover(scene: Scene, end: End) -> str:
    _beside_an_able_one(scene)
    _await(scene, end.at)

    def ask() -> None:
        with scene.orders() as orders:
            orders.switchover(to=None)

    return _asked(ask, "a switchover")


def _failover(scene: Scene, end: End) -> str:
    leader = _beside_an_able_one(scene)
    _await(scene, end.at)

    def ask() -> None:
        with scene.orders() as orders:
            orders.failover(to=None)

    said = _asked(ask, "a failover")
    _another_leads(scene, leader, seconds=5.0)
    return said


def _asked(ask: Callable[[], None], what: str) -> str:
    try:
        ask()
    except (UsageError, StoreError) as refused:
        return f"{what} was asked for, and refused: {refused}"
    return f"{what} was asked for"


_HOW: Final[Mapping[str, Callable[[Scene, End], str]]] = {
    "kill": _kill,
    "kill standby": _kill_standby,
    "kill both": _kill_both,
    "pause": _pause,
    "pause two": _pause_two,
    IN_TRANSACTION: _pause_in_transaction,
    "term": _term,
    "term both": _term_both,
    "idle": _idle,
    "quiet": _quiet,
    "night": _night,
    "restart": _restart,
    "switchover": _switchover,
    "failover": _failover,
}
