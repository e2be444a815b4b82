"""What a steady load of commits sees while servers of a real ensemble are killed, restarted and cut off: nothing that
was acknowledged is lost, nothing is applied twice, and the term goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Absent, Key, Put, Scope, Version
from tenure.coordination.session import SessionKeeper
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import LEADER, Term, commit_under
from tenure.errors import GuardFailed, StoreUnavailable, TermLost
from tests.contract.places import EtcdPlace
from tests.kit.servers import EtcdCluster, ZooKeeperEnsemble
from tests.kit.waiting import NEVER, NEVER_S, wait_until
from tests.stores import new_store, once_there

SCOPE = Scope("load")
TTL = timedelta(seconds=10)
WRITERS = 4


class Writer:
    """Counts a record of its own up under a term, one by one, as fast as it is answered."""

    def __init__(self, url: str, number: int, term: Term) -> None:
        self.key = Key(f"counters/{number}")
        self.count = 0
        """How many of its writes were acknowledged."""
        self.refused = 0
        """How often it was told that the store was away, and nothing was written."""
        self.lost: TermLost | None = None
        self.error: BaseException | None = None
        self._url = url
        self._term = term
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name=f"writer-{number}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=NEVER_S)
        assert not self._thread.is_alive()

    def _write(self) -> None:
        clock = SystemClock()
        version: Version | None = None
        try:
            with closing(open_store(self._url, clock=clock)) as store:
                while not self._stop.is_set():
                    put = Put(self.key, str(self.count + 1).encode(), version)
                    try:
                        version = commit_under(store, self._term, writes=[put], clock=clock).versions[self.key]
                    except StoreUnavailable:
                        self.refused += 1
                        continue
                    self.count += 1
        except TermLost as lost:
            self.lost = lost
        except BaseException as error:
            self.error = error
            raise


class Load:
    """The term, its writers, and the servers below them."""

    def __init__(self, servers: ZooKeeperEnsemble | EtcdCluster, url: str, stack: ExitStack) -> None:
        self.servers = servers
        self.url = url
        clock = SystemClock()
        self.store = stack.enter_context(closing(open_store(url, clock=clock)))
        keeper = stack.enter_context(SessionKeeper(self.store, ttl=TTL, clock=clock))
        term = Election(self.store, SCOPE, member="anna", clock=clock).campaign(keeper, stop=threading.Event())
        assert term is not None
        self.term = term
        self.writers = [Writer(url, number, term) for number in range(WRITERS)]
        stack.callback(self.stop)

    def stop(self) -> None:
        for writer in self.writers:
            writer.stop()

    def nobody_failed(self) -> None:
        assert [writer.lost or writer.error for writer in self.writers] == [None] * WRITERS

    def goes_on(self, why: str, *, steps: int = 20) -> None:
        """Wait until every writer has made as many steps more."""
        before = [writer.count for writer in self.writers]

        def all_did() -> bool:
            self.nobody_failed()
            return all(writer.count >= was + steps for writer, was in zip(self.writers, before, strict=True))

        wait_until(all_did, what=f"{why}: {before}, then {[writer.count for writer in self.writers]}")

    def is_right(self) -> None:
        """Every write that was acknowledged is there, once, and the term is the first one still."""
        self.stop()
        self.nobody_failed()
        for writer in self.writers:
            record = once_there(partial(self.store.read, SCOPE, writer.key))
            assert record is not None
            assert int(record.value) == writer.count
        assert not self.term.lost, self.term.liveness.why
        last = Put(Key("last"), b"", None)
        once_there(lambda: commit_under(self.store, self.term, writes=[last], clock=SystemClock()))
        assert self.term.epoch == 1


@pytest.fixture(params=["zookeeper", "etcd"])
def load(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Load]:
    servers = request.getfixturevalue(request.param)
    with whole(servers), ExitStack() as stack:
        yield Load(servers, new_store(request, request.param, tmp_path), stack)


@contextmanager
def whole(servers: ZooKeeperEnsemble | EtcdCluster) -> Iterator[None]:
    """Others share them: all run again at the end."""
    try:
        yield
    finally:
        for node in servers.nodes:
            if node.running:
                node.wake()
        servers.start()


def test_the_leading_server_is_killed(load: Load) -> None:
    load.goes_on("at first")
    leader = load.servers.leader()
    load.servers.nodes[leader].kill()
    load.goes_on("without the server that led")
    load.servers.nodes[leader].start()
    load.servers.wait_for(leader)
    assert load.servers.leader() != leader
    load.goes_on("with all three again")
    load.is_right()


def test_each_server_is_restarted_in_turn(load: Load) -> None:
    load.goes_on("at first")
    for number, node in enumerate(load.servers.nodes):
        node.stop()
        load.goes_on(f"without server {number}")
        node.start()
        load.servers.wait_for(number)
    load.goes_on("with all three again")
    load.is_right()


def test_each_server_is_cut_off_in_turn(load: Load) -> None:
    """It is stopped (SIGSTOP): its lines stand, and nobody answers on them."""
    load.goes_on("at first")
    for number, node in enumerate(load.servers.nodes):
        node.pause()
        load.goes_on(f"without server {number}")
        node.wake()
        load.servers.wait_for(number)
    load.goes_on("with all three again")
    load.is_right()


def test_without_a_majority_nothing_is_acknowledged_and_nothing_lost(load: Load) -> None:
    load.goes_on("at first")
    for node in load.servers.nodes[:2]:
        node.kill()
    wait_until(lambda: all(writer.lost for writer in load.writers), what="the end of the term")
    load.servers.start()
    load.stop()
    for writer in load.writers:
        record = once_there(partial(load.store.read, SCOPE, writer.key))
        assert record is not None
        assert writer.lost is not None
        assert writer.error is None
        more = int(record.value) - writer.count
        assert more == 0 or (more == 1 and writer.lost.write_is_unknown)


# --- sessions, watches ------------------------------------------------------------------------------------------------


def test_a_session_moves_to_another_server_and_stays_the_same(load: Load) -> None:
    """Whichever server it is at: each one is killed once, and the leader's record is the same throughout."""
    before = once_there(lambda: load.store.read(SCOPE, LEADER))
    assert before is not None
    for number, node in enumerate(load.servers.nodes):
        node.kill()
        load.goes_on(f"without server {number}")
        node.start()
        load.servers.wait_for(number)
    assert once_there(lambda: load.store.read(SCOPE, LEADER)) == before, "the leader's record, as it was"
    load.is_right()


def test_a_watch_goes_on_through_a_compaction(etcd: EtcdCluster) -> None:
    """The line breaks, the revisions since are compacted away, and the watch says that something changed."""
    with closing(EtcdPlace(etcd)) as place:
        direct, store = place.direct(), place.through()
        revision = store.list(SCOPE).revision
        with store.watch(SCOPE, after=revision) as changes:
            assert not changes.wait(timeout=timedelta(milliseconds=200))
            place.proxy.cut()
            for number in range(5):
                direct.commit(SCOPE, guards=[], writes=[Put(Key(f"missed/{number}"), b"", None)])
            etcd.compact()
            place.proxy.heal()
            wait_until(lambda: changes.wait(timeout=timedelta(seconds=1)), what="the word of a change")
            listing = store.list(SCOPE)
            assert len(listing.records) == 5
        with store.watch(SCOPE, after=listing.revision) as changes:
            direct.commit(SCOPE, guards=[], writes=[Put(Key("after"), b"", None)])
            wait_until(lambda: changes.wait(timeout=timedelta(seconds=1)), what="the word of the next change")


# --- many -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["zookeeper", "etcd"])
def test_ten_thousand_records_are_listed(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    clock = SystemClock()
    with closing(open_store(new_store(request, kind, tmp_path), clock=clock)) as store:
        at_once = store.guarantees.max_writes // 2
        keys = [Key(f"handles/{number:05d}") for number in range(10_000)]
        value = b"x" * 300  # as long as a pointer
        for start in range(0, len(keys), at_once):
            store.commit(SCOPE, guards=[], writes=[Put(key, value, None) for key in keys[start : start + at_once]])
        found = store.list(SCOPE, "handles")
        assert [record.key for record in found.records] == keys
        assert {record.value for record in found.records} == {value}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["zookeeper", "etcd"])
def test_two_hundred_contenders_have_one_leader_and_one_successor(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    contenders(request, tmp_path, kind, count=200)


@pytest.mark.parametrize("kind", ["zookeeper", "etcd"])
def test_twenty_contenders_have_one_leader_and_one_successor(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    contenders(request, tmp_path, kind, count=20)


class Contender:
    """One member that waits for the office on a thread of its own, and holds it until it is told to go."""

    def __init__(self, store: CoordinationStore, number: int) -> None:
        self.term: Term | None = None  # None: it was not elected
        self.error: BaseException | None = None
        self.stop, self.go = threading.Event(), threading.Event()
        self.waiting = threading.Event()
        self._store = store
        self._name = f"m{number:03d}"
        self.thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        clock = SystemClock()
        try:
            with SessionKeeper(self._store, ttl=timedelta(seconds=60), clock=clock) as keeper:
                election = Election(self._store, SCOPE, member=self._name, clock=clock)
                election.join(keeper, host="here", pid=1)
                self.waiting.set()
                term = election.campaign(keeper, stop=self.stop)
                if term is None:
                    return
                self.term = term
                self.go.wait()
                election.resign(term)
        except BaseException as error:
            self.error = error
            raise


def contenders(request: pytest.FixtureRequest, folder: Path, kind: str, *, count: int) -> None:
    """One leads; when it goes one other does; whoever is not the leader is refused whatever it commits."""
    clock = SystemClock()
    many = 2 * NEVER
    with closing(open_store(new_store(request, kind, folder), clock=clock)) as store:
        members = [Contender(store, number) for number in range(count)]

        def nobody_failed() -> bool:
            assert [member.error for member in members if member.error is not None] == []
            return True

        try:
            wait_until(
                lambda: nobody_failed() and all(one.waiting.is_set() for one in members), many, what="all to wait"
            )
            for epoch in (1, 2, 3):
                wait_until(
                    lambda: nobody_failed() and any(one.term and one.term.epoch == epoch for one in members),  # noqa: B023 - called in this very round
                    many,
                    what=f"the leader of epoch {epoch}",
                )
                elected = [one for one in members if one.term is not None]
                assert sorted(one.term.epoch for one in elected if one.term) == list(range(1, epoch + 1))
                leader = next(one for one in elected if one.term is not None and one.term.epoch == epoch)
                assert leader.term is not None
                commit_under(store, leader.term, writes=[Put(Key(f"by/{epoch}"), b"", None)], clock=clock)
                leader.go.set()
            wait_until(lambda: any(one.term and one.term.epoch == 4 for one in members), many, what="the fourth")
            for one in members:
                term = one.term
                if term is None:
                    with pytest.raises(GuardFailed):
                        store.commit(SCOPE, guards=[Absent(LEADER)], writes=[Put(LEADER, b"me", None)])
                elif term.epoch < 4:
                    with pytest.raises(TermLost):
                        commit_under(store, term, writes=[Put(Key("late"), b"", None)], clock=clock)
            assert store.read(SCOPE, Key("late")) is None
        finally:
            for one in members:
                one.stop.set()
                one.go.set()
            for one in members:
                one.thread.join(timeout=many.total_seconds())
        nobody_failed()
