"""A doctor at real servers: each fault of a store, a storage or a target has its line, and nothing stays there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from kazoo.security import make_digest_acl

from tenure.backends.etcd import fullness
from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.examination import Grade, Remark
from tenure.coordination.records import Key, Put, Scope
from tenure.doctor.targets import TargetAsked, ask_targets
from tenure.events import Event, Events
from tenure.pipelines.pipeline import Stream
from tenure.scope_context import ScopeContext
from tenure.sinks.postgres.sink import Postgres
from tenure.storage.reach import reach
from tests.contract.test_etcd_auth import Guarded
from tests.kit.memory import MemoryStore
from tests.kit.servers import BUCKET, EtcdCluster, KubernetesServer, PostgresServer, ZooKeeperEnsemble, installed
from tests.kit.servers.postgres import PASSWORD, USER
from tests.s3 import DENY, PASS, Gate
from tests.stores import new_store
from tests.support.doctor import bad, lines_of
from tests.support.kubernetes import RULES, member_account, without

OF_STORE: Final = ("store", "commits", "servers", "clocks", "members")
TTL: Final = timedelta(seconds=20)


def at(store: str, **settings: Any) -> Mapping[str, Sequence[Remark]]:
    return lines_of(only=OF_STORE, store=store, scope="shop", **{"ttl": TTL, **settings})


class Stepped(SystemClock):
    """The clock of a host whose wall clock was stepped."""

    def __init__(self, by: timedelta) -> None:
        self._by = by

    def now(self) -> datetime:
        return super().now() + self._by


@pytest.mark.parametrize("kind", ["zookeeper", "etcd"])
def test_a_store_that_is_right_and_stays_as_it_was(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    url = new_store(request, kind, tmp_path)
    lines = at(url)
    assert bad(lines) == []
    assert lines["commits"][0].seen.startswith("20 commits: median ")
    assert lines["clocks"] == [Remark(Grade.OK, lines["clocks"][0].seen)]
    assert lines["clocks"][0].seen.startswith("the clock of the store agrees with this host's to ")
    assert lines["servers"][0].seen.endswith("answer")
    with closing(open_store(url, clock=SystemClock())) as store:
        assert store.scopes() == []


@pytest.mark.parametrize("kind", ["zookeeper", "etcd", "kubernetes"])
def test_a_clock_that_was_stepped(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    (line,) = at(new_store(request, kind, tmp_path), clock=Stepped(timedelta(hours=1)))["clocks"]
    assert line.grade is Grade.WARN
    assert line.seen in {f"the clock of this host is {s} s ahead of that of the store" for s in (3599, 3600, 3601)}
    assert line.mend == "synchronise the clocks, for example with chrony"


# --- ZooKeeper --------------------------------------------------------------------------------------------------------


def test_a_ttl_that_zookeeper_clips(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    (line,) = at(new_store(request, "zookeeper", tmp_path), ttl=timedelta(seconds=200))["commits"]
    assert line == Remark(
        Grade.BAD,
        "a ttl of 200 s is not what the ensemble permits: it makes it 120 s",
        "no member can lead: exit code 2 or 4",
        "choose that one, or set the servers' tickTime and session timeouts",
    )


def test_a_wrong_digest_of_zookeeper(
    zookeeper: ZooKeeperEnsemble, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = new_store(request, "zookeeper", tmp_path)
    with zookeeper._client() as client:
        client.set_acls(f"/{place.rpartition('/')[2]}", [make_digest_acl("ann", "right", all=True)])
    where = place.removeprefix("zookeeper://")
    lines = at(f"zookeeper://ann@{where}", store_password="wrong")
    assert bad(lines) == ["store"]
    assert lines["store"][0] == Remark(
        Grade.BAD,
        "ZooKeeper does not permit to look for the chroot",
        "a member does not start: exit code 2 or 4",
        "check the user, its password and the ACL of the chroot",
    )
    assert bad(at(f"zookeeper://ann@{where}", store_password="right")) == []


def test_a_server_of_zookeeper_that_is_away(
    zookeeper: ZooKeeperEnsemble, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = new_store(request, "zookeeper", tmp_path)
    hosts = zookeeper.hosts
    lines = at(url.replace(hosts, f"{hosts},127.0.0.1:1"))
    count = hosts.count(",") + 1
    assert lines["servers"][0].grade is Grade.WARN
    assert lines["servers"][0].seen == f"{count} of {count + 1} servers of ZooKeeper answer; silent: 127.0.0.1:1"


# --- etcd -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with installed(), EtcdCluster(tmp_path_factory.mktemp("guarded"), nodes=1) as servers:
        yield Guarded(servers)


@pytest.mark.filterwarnings("ignore")
def test_a_wrong_password_of_etcd(guarded: Guarded) -> None:
    (line,) = at(guarded.url(guarded.add(role="READWRITE"), "wrong"))["store"]
    assert line.grade is Grade.BAD
    assert line.seen.startswith("etcd does not let in this user: ")
    assert line.mend == "check the user and its password"


@pytest.mark.filterwarnings("ignore")
def test_a_right_that_etcd_does_not_give(guarded: Guarded) -> None:
    lines = at(guarded.url(guarded.add(role="READ")))
    assert bad(lines) == ["commits", "clocks"]
    assert lines["commits"][0].seen.startswith("etcd does not permit to commit to scope 'tenure-doctor'")
    assert lines["commits"][0].mend == "give the user's role this prefix"


def test_an_etcd_that_nobody_compacts(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fullness, "MANY", 3)
    url = new_store(request, "etcd", tmp_path)
    with closing(open_store(url, clock=SystemClock())) as store:
        for number in range(9):
            store.commit(Scope("shop"), guards=(), writes=(Put(Key(f"a/{number}"), b"", None),))
    line = at(url)["servers"][-1]
    assert line.grade is Grade.WARN
    assert line.seen.startswith("etcd has compacted none of its ")
    assert line.means == "the database grows to its quota, and then refuses every write"
    assert line.mend.startswith("start it with --auto-compaction-retention=1h")


# --- Kubernetes -------------------------------------------------------------------------------------------------------


def account_at(server: KubernetesServer, rules: tuple[Mapping[str, Any], ...]) -> str:
    """The URL of a store for an account with these rights."""
    namespace = server.new_namespace()
    user = member_account(server, namespace, rules=rules)
    return f"kubernetes://{namespace}/tenure?kubeconfig={quote(str(server.kubeconfig(user)))}"


def test_an_account_with_the_rights_of_members(kubernetes: KubernetesServer) -> None:
    lines = at(account_at(kubernetes, RULES))
    assert bad(lines) == []
    assert lines["commits"][0].seen.startswith("20 renewals: median ")
    assert lines["servers"][0].seen.startswith("the account has all rights of a member in test-")


def test_rights_that_name_the_config_map_suffice(kubernetes: KubernetesServer) -> None:
    records, sessions = RULES
    named = {**records, "resourceNames": ["tenure.shop"], "verbs": ["get", "update", "list", "watch"]}
    url = account_at(kubernetes, (named, {**records, "verbs": ["create"]}, sessions))
    assert bad(at(url)) == []
    (line,) = [one for one in lines_of(only=OF_STORE, store=url, scope="other")["servers"] if "get" in one.seen]
    assert line.seen == "the account cannot get configmaps 'tenure.other'"


@pytest.mark.parametrize(
    ("verb", "resource"), [("update", "configmaps"), ("create", "configmaps"), ("delete", "leases")]
)
def test_a_right_that_the_account_lacks(kubernetes: KubernetesServer, verb: str, resource: str) -> None:
    (line,) = at(account_at(kubernetes, without(verb, resource)))["servers"]
    what = "configmaps 'tenure.shop'" if verb == "update" else resource
    assert (line.grade, line.seen) == (Grade.BAD, f"the account cannot {verb} {what}")
    assert line.mend == "give the account this right, as deploy/kubernetes/members/rights.yaml does"


# --- S3 ---------------------------------------------------------------------------------------------------------------


def test_a_storage_in_s3_that_is_right_and_stays_as_it_was(gate: Gate) -> None:
    root = f"s3://{BUCKET}/{os.urandom(6).hex()}"
    lines = lines_of(only=("storage", "space"), storage=root)
    assert bad(lines) == []
    assert lines["storage"][0].seen.startswith(f"{root} takes a file in ")
    assert reach(root).entries() == ()


@pytest.mark.parametrize(
    "refused", [("PUT",), ("PUT", "GET", "HEAD", "DELETE", "POST")], ids=["read-only", "wrong keys"]
)
def test_keys_of_s3_that_may_not_write(gate: Gate, refused: tuple[str, ...]) -> None:
    gate.rule = lambda method, path: DENY if method in refused else PASS
    (line,) = lines_of(only=("storage",), storage=f"s3://{BUCKET}/{os.urandom(6).hex()}")["storage"]
    assert line.grade is Grade.BAD
    assert line.seen.startswith("cannot write s3://" if refused == ("PUT",) else "cannot list s3://")
    assert line.means == "no batch can be written: exit code 6"


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def asked(url: str, password: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Why the target of a query does not answer; empty: it answers."""
    monkeypatch.setenv("PGPASSWORD", password)
    events: list[Event] = []
    context = ScopeContext(MemoryStore(), Scope("shop"), "memory://x", SystemClock(), Events(events.append))
    no_rows: Any = None
    ask_targets([Stream("orders", no_rows, Postgres(url, "orders"), "append", None)], context)
    (event,) = events
    assert isinstance(event, TargetAsked)
    return event.why


def test_a_target_in_postgresql(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(postgres.url, PASSWORD, monkeypatch) == ""
    why = asked(postgres.url, "wrong", monkeypatch)
    assert why.startswith("table public.orders of PostgreSQL at 127.0.0.1/")
    assert "password authentication failed for user" in why


def test_a_user_of_postgresql_who_may_make_no_table(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with postgres.connect() as connection:
        connection.execute("create role onlooker login password 'reads'")
    why = asked(postgres.url.replace(f"{USER}@", "onlooker@"), "reads", monkeypatch)
    assert why.endswith(
        "user 'onlooker' may not create tables in schema 'public'; grant create on schema public to onlooker"
    )
