"""Store URLs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from urllib.parse import SplitResult

import pytest

from tenure.backends import registry
from tenure.backends.sqlite import SqliteStore
from tenure.clock import Clock
from tenure.coordination.records import Key, Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import StoreUnavailable, UsageError
from tests.kit.clock import ManualClock


def test_a_sqlite_url_names_an_absolute_path(tmp_path: Path) -> None:
    for url in (f"sqlite://{tmp_path}/a%20b.db", f"sqlite:///{tmp_path}/a%20b.db"):
        store = registry.open_store(url, clock=ManualClock())
        assert isinstance(store, SqliteStore)
        assert not store.list(Scope("s")).records
        assert (tmp_path / "a b.db").exists()
        store.close()


@pytest.mark.parametrize("url", ["sqlite://rel.db", "sqlite://host/x.db", "sqlite://", "sqlite:///", "sqlite:///d/"])
def test_another_form_of_a_sqlite_url_is_refused_with_the_fix(url: str) -> None:
    with pytest.raises(UsageError, match="sqlite:///var/lib"):
        registry.open_store(url, clock=ManualClock())


@pytest.mark.parametrize(
    ("url", "fix"),
    [
        ("sqlite:///srv/ha.db?timeout=5", r"ends its path at '\?'.*; write %3F where .* else leave '\?timeout=5' out"),
        ("sqlite:///srv/a#1/ha.db", r"ends its path at '#'.*; write %23 where .* else leave '#1/ha\.db' out"),
    ],
)
def test_a_mark_in_a_sqlite_url_is_named_with_the_fix(url: str, fix: str) -> None:
    with pytest.raises(UsageError, match=fix):
        registry.open_store(url, clock=ManualClock())


def test_a_store_whose_volume_is_not_mounted_is_not_said_to_be_new(tmp_path: Path) -> None:
    for path, found in ((tmp_path / "ha.db", "but its directory does"), (tmp_path / "d" / "ha.db", "nor does its dir")):
        with pytest.raises(StoreUnavailable, match=rf"does not exist, {found}.*that its volume is mounted"):
            registry.open_store(f"sqlite://{path}", clock=ManualClock(), existing=True)
        assert not path.exists()


@pytest.mark.parametrize("url", ["zk://host", "/var/lib/x.db", ""])
def test_an_unknown_scheme_lists_those_that_work(url: str) -> None:
    with pytest.raises(UsageError, match=r"sqlite:///absolute/path\.db, zookeeper://"):
        registry.open_store(url, clock=ManualClock())


def test_a_missing_client_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_missing(url: SplitResult, clock: Clock, existing: bool) -> CoordinationStore:
        raise ModuleNotFoundError("No module named 'kazoo'", name="kazoo.client")

    backend = registry.Backend(form="zookeeper://hosts", open=open_missing, extra="zookeeper", package="kazoo")
    monkeypatch.setitem(registry.BACKENDS, "zookeeper", backend)
    with pytest.raises(UsageError, match=r"pip install '\.\[zookeeper\]' in the clone"):
        registry.open_store("zookeeper://host", clock=ManualClock())
    monkeypatch.setitem(registry.BACKENDS, "zookeeper", registry.Backend(form="", open=open_missing))
    with pytest.raises(ModuleNotFoundError):
        registry.open_store("zookeeper://host", clock=ManualClock())


def test_a_reader_makes_no_store_by_a_typing_error(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/store.db"
    with pytest.raises(StoreUnavailable, match=r"store\.db does not exist, .*; check the path"):
        registry.open_store(url, clock=ManualClock(), existing=True)
    assert not list(tmp_path.iterdir())
    with closing(registry.open_store(url, clock=ManualClock())) as store:
        store.read(Scope("s"), Key("k"))
    registry.open_store(url, clock=ManualClock(), existing=True).close()
