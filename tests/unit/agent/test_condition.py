"""What a member says of itself while its store is away, and while its driver is silent."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tenure.agent.condition import Condition, Outlook
from tenure.coordination.candidates import Identity, State
from tenure.coordination.encoding import encode
from tenure.coordination.records import Record, Scope, SessionId, Version
from tenure.coordination.session import Liveness
from tenure.coordination.term import EPOCH, LEADER
from tenure.events import DriverSilent, Event, Events, StoreBack
from tests.kit.clock import ManualClock
from tests.unit.agent.scene import Scripted

SCOPE = Scope("rows")
STARTING = Condition("anna", State.STARTING, None, ready=False)
LED = (
    Record(EPOCH, encode({"epoch": 4, "holder": "ben", "since": "noon", "past": []}), Version("1"), None),
    Record(LEADER, encode({"member": "ben", "epoch": 4}), Version("2"), SessionId("s")),
)


class Site:
    """What a member has heard."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.driver = Scripted()
        self.driver.gone = None
        self.told: list[Event] = []
        self.outlook = Outlook(
            SCOPE, Identity("anna", "here", 7), driver=self.driver, clock=self.clock, events=Events(self.told.append)
        )


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_member_whose_store_is_away_is_away_and_not_starting(site: Site) -> None:
    site.outlook.look(LED)
    assert site.outlook.complete(STARTING).state is State.STARTING
    site.outlook.store_away("no answer")
    since = site.outlook.complete(STARTING).away_since
    site.clock.advance(timedelta(seconds=5))
    site.outlook.store_away("refused")
    now = site.outlook.complete(STARTING)
    assert (now.state, now.away, now.away_since) == (State.AWAY, "refused", since)
    assert (now.leader, now.newest_epoch) == ("ben", 4), "as last heard"
    site.driver.gone = "it died"
    assert site.outlook.complete(STARTING).state is State.STARTING, "its driver is not up"
    site.outlook.opened(Liveness(clock=site.clock, until_s=site.clock.monotonic_s() + 10))
    assert site.outlook.complete(STARTING).away == ""
    assert site.told == [StoreBack(SCOPE, "anna", 5.0)]
    site.outlook.opened(Liveness(clock=site.clock, until_s=0))
    assert len(site.told) == 1


def test_the_session_is_told_by_what_is_left_of_it(site: Site) -> None:
    assert site.outlook.complete(STARTING).session_s is None
    liveness = Liveness(clock=site.clock, until_s=site.clock.monotonic_s() + 10)
    site.outlook.opened(liveness)
    site.clock.advance(timedelta(seconds=4))
    assert site.outlook.complete(STARTING).session_s == 6
    liveness.end("closed")
    assert site.outlook.complete(STARTING).session_s is None


def test_a_silence_is_told_once(site: Site) -> None:
    for silent_s, told in ((4, 0), (6, 1), (9, 1), (0, 1), (7, 2)):
        site.driver.silent_s = silent_s
        site.outlook.look(LED)
        assert [type(event) for event in site.told] == [DriverSilent] * told
        now = site.outlook.complete(STARTING)
        assert (now.silent_s, now.is_silent) == (silent_s, silent_s > 5)


def test_records_that_do_not_decode_change_nothing(site: Site) -> None:
    site.outlook.look(LED)
    site.outlook.look([Record(EPOCH, b"?", Version("3"), None)])
    assert site.outlook.complete(STARTING).newest_epoch == 4
