"""The stores that a process has open: one client for all users of a URL, closed with the last."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tenure.backends.registry import SHARED, SharedStores
from tenure.backends.sqlite import SqliteStore
from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tenure.errors import StoreUnavailable, UsageError
from tests.kit.clock import ManualClock

SCOPE = Scope("rows")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/ha.db"


def test_the_last_user_closes_the_client_of_all(url: str) -> None:
    stores = SharedStores()
    with ExitStack() as first:
        one = first.enter_context(stores.use(url, clock=SystemClock()))
        with stores.use(url, clock=SystemClock()) as two:
            assert two is one
        assert one.list(SCOPE).records == ()
    with pytest.raises(StoreUnavailable, match="is closed"):
        one.list(SCOPE)
    with stores.use(url, clock=SystemClock()) as anew:
        assert anew is not one
        assert anew.list(SCOPE).records == ()


def test_another_user_password_option_or_clock_is_another_client() -> None:
    stores, clock = SharedStores(), ManualClock()
    urls = ["etcd://anna:one@h:1/x", "etcd://anna:two@h:1/x", "etcd://h:1/x", "etcd://h:1/x?connect_timeout=2s"]
    with ExitStack() as stack:
        opened = [stack.enter_context(stores.use(url, clock=SystemClock())) for url in urls]
        opened += [stack.enter_context(stores.use(urls[0], clock=one)) for one in (clock, ManualClock())]
        assert len({id(store) for store in opened}) == len(opened)


def test_an_unusable_url_is_an_error_each_time() -> None:
    stores = SharedStores()
    for _ in range(2):
        with pytest.raises(UsageError, match="no known scheme"), stores.use("redis://h", clock=SystemClock()):
            pass


def test_many_threads_open_one_client_and_close_it_once(url: str) -> None:
    stores, seen = SharedStores(), set[int]()
    together = threading.Barrier(8)

    def use() -> None:
        together.wait()
        with stores.use(url, clock=SystemClock()) as store:
            store.list(SCOPE)
            seen.add(id(store))
            together.wait()

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 1


def test_a_forked_child_opens_its_own_and_closes_nothing_of_its_parents(url: str) -> None:
    child, own = -1, None
    try:
        with SHARED.use(url, clock=SystemClock()) as store:
            child = os.fork()
            if child == 0:
                with SHARED.use(url, clock=SystemClock()) as own:
                    pass
            else:
                _, status = os.waitpid(child, 0)
                with SHARED.use(url, clock=SystemClock()) as again:
                    assert again is store
    finally:
        if child == 0:
            assert own is not None
            closed = [one._database._closed for one in (own, store) if isinstance(one, SqliteStore)]
            os._exit(0 if closed == [True, False] and own is not store else 1)
    assert os.waitstatus_to_exitcode(status) == 0
