"""An etcd that wants to know who asks: tokens that end, passwords that are wrong, users who may not do everything.

Each refusal is one error of the family, soon; none is asked for again and again.
"""

from __future__ import annotations

import base64
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta

import pytest

from tenure.backends.etcd import Cluster, EtcdStore
from tenure.coordination.encoding import new_uid
from tenure.coordination.records import Key, Put, Revision, Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import AccessDenied
from tests.cli.support import tenure
from tests.draw import only_if_drawn
from tests.kit.servers import EtcdCluster, installed
from tests.kit.waiting import NEVER, NEVER_S, wait_until

pytestmark = only_if_drawn("etcd")


SCOPE = Scope("guarded")
GIVES_UP = 2 * NEVER
"""After so long a request ends whose refusal is not understood."""
PREFIX = "/of-us"


class Guarded:
    """One member of etcd with users: root, who may do anything, and those that a test adds."""

    def __init__(self, servers: EtcdCluster) -> None:
        self._servers = servers
        for what, body in (
            ("user/add", {"name": "root", "password": "of root"}),
            ("user/grant", {"user": "root", "role": "root"}),
        ):
            servers.ask(0, f"auth/{what}", body)
        for kind in ("READ", "READWRITE"):
            start, end = (base64.b64encode(key).decode() for key in (f"{PREFIX}/".encode(), f"{PREFIX}0".encode()))
            servers.ask(0, "auth/role/add", {"name": kind})
            grant = {"name": kind, "perm": {"permType": kind, "key": start, "range_end": end}}
            servers.ask(0, "auth/role/grant", grant)
        servers.ask(0, "auth/enable", {})

    def add(self, *, role: str | None) -> str:
        """A new user, whose password is its name; it may do what the role permits below the prefix."""
        name = f"{role or 'NOBODY'}-{new_uid()[:8]}".lower()
        self._as_root("user/add", {"name": name, "password": name})
        if role is not None:
            self._as_root("user/grant", {"user": name, "role": role})
        return name

    def end_tokens(self, user: str) -> None:
        """All tokens of the user are over when this returns."""
        self._as_root("user/changepw", {"name": user, "password": user})

    def outlive_tokens(self, user: str) -> None:
        """Let the tokens of the user run out, as all do that are not used."""
        log = self._servers.nodes[0].log
        done = re.compile(rf'deleted a simple token.*"user-name":"{user}"')
        wait_until(lambda: done.search(log.read_text(errors="replace")), what="the end of the token")

    def cluster(self, user: str | None, password: str | None = None) -> Cluster:
        """As this user sees it; by default with its own password."""
        word = "" if user is None else user if password is None else password
        return Cluster(
            endpoints=self._servers.endpoints, prefix=PREFIX, user=user, password=word, request_timeout=GIVES_UP
        )

    def url(self, user: str | None, password: str | None = None) -> str:
        """The same, for the command line."""
        who = "" if user is None else f"{user}:{user if password is None else password}@"
        return f"etcd://{who}{self._servers.endpoints[0]}{PREFIX}?request_timeout={GIVES_UP.seconds}s"

    def streams(self) -> int:
        """How many streams for watches were ever begun."""
        page = f"http://{self._servers.endpoints[0]}/metrics"
        with urllib.request.urlopen(page, timeout=NEVER_S) as answer:
            text = answer.read().decode()
        found = re.search(r'^grpc_server_started_total\{grpc_method="Watch",.*\} (\S+)$', text, flags=re.MULTILINE)
        assert found is not None
        return int(float(found[1]))

    def _as_root(self, what: str, body: dict[str, str]) -> None:
        token = self._servers.ask(0, "auth/authenticate", {"name": "root", "password": "of root"})["token"]
        self._servers.ask(0, f"auth/{what}", body, token=token)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    flags = ("--auth-token-ttl", "1", "--logger", "zap")  # zap tells when a token has run out
    with installed(), EtcdCluster(tmp_path_factory.mktemp("guarded"), nodes=1, flags=flags) as servers:
        yield Guarded(servers)


@pytest.fixture
def stores(guarded: Guarded) -> Iterator[Callable[..., CoordinationStore]]:
    """Makes stores of users, and closes them."""
    with ExitStack() as stack:

        def make(user: str | None, password: str | None = None) -> CoordinationStore:
            return stack.enter_context(closing(EtcdStore(guarded.cluster(user, password))))

        yield make


@contextmanager
def soon() -> Iterator[None]:
    began_s = time.monotonic()
    yield
    assert time.monotonic() - began_s < NEVER_S


@contextmanager
def refused(words: str) -> Iterator[None]:
    """The block ends soon with one error of the family that says so in one line."""
    with soon(), pytest.raises(AccessDenied) as told:
        yield
    assert words in str(told.value)
    assert "\n" not in str(told.value)


def put(store: CoordinationStore, key: str) -> Revision:
    return store.commit(SCOPE, guards=[], writes=[Put(Key(key), b"", None)]).revision


@pytest.fixture(params=["it ran out", "the password was set"])
def end_tokens(request: pytest.FixtureRequest, guarded: Guarded) -> Callable[[str], None]:
    """The ways in which a token ends."""
    return guarded.outlive_tokens if request.param == "it ran out" else guarded.end_tokens


def test_requests_go_on_after_the_end_of_a_token(
    guarded: Guarded, stores: Callable[..., CoordinationStore], end_tokens: Callable[[str], None]
) -> None:
    user = guarded.add(role="READWRITE")
    store = stores(user)
    put(store, f"{user}/a")
    end_tokens(user)
    put(store, f"{user}/b")
    end_tokens(user)
    assert [record.key for record in store.list(SCOPE, user).records] == [f"{user}/a", f"{user}/b"]


def test_a_session_goes_on_after_the_end_of_a_token(
    guarded: Guarded, stores: Callable[..., CoordinationStore], end_tokens: Callable[[str], None]
) -> None:
    user = guarded.add(role="READWRITE")
    store = stores(user)
    session = store.open_session(ttl=timedelta(seconds=20))
    store.commit(SCOPE, guards=[], writes=[Put(Key(user), b"", None, session.id)])
    end_tokens(user)
    session.renew()
    assert store.read(SCOPE, Key(user)) is not None
    end_tokens(user)
    session.close()
    assert store.read(SCOPE, Key(user)) is None


def test_a_watch_begins_with_a_new_token_after_the_end_of_one(
    guarded: Guarded, stores: Callable[..., CoordinationStore], end_tokens: Callable[[str], None]
) -> None:
    user, other = guarded.add(role="READWRITE"), stores(guarded.add(role="READWRITE"))
    store = stores(user)
    seen = store.list(SCOPE).revision
    end_tokens(user)
    before = guarded.streams()
    with store.watch(SCOPE, after=seen) as changes:
        assert changes.wait(timeout=timedelta(seconds=2)) is None, "nothing has changed"
        assert guarded.streams() - before <= 2, "the one that was refused, and one with a new token"
        revision = put(other, f"{user}-changed")
        assert changes.wait(timeout=NEVER) == revision


def test_a_wrong_password_is_told(stores: Callable[..., CoordinationStore], guarded: Guarded) -> None:
    user = guarded.add(role="READWRITE")
    for store in (stores(user, "wrong"), stores("nobody", "wrong")):
        for ask in (
            lambda store=store: store.list(SCOPE),
            lambda store=store: put(store, "a"),
            lambda store=store: store.open_session(ttl=timedelta(seconds=2)),
            lambda store=store: store.watch(SCOPE, after=Revision(0)).wait(timeout=NEVER),
        ):
            with refused("etcd does not let in this user"):
                ask()


def test_who_does_not_say_who_asks_is_told(stores: Callable[..., CoordinationStore]) -> None:
    store = stores(None)
    with refused("write user@ before the hosts, and set TENURE_STORE_PASSWORD"):
        store.list(SCOPE)
    with refused("write user@ before the hosts, and set TENURE_STORE_PASSWORD"):
        put(store, "a")
    with (
        refused("write user@ before the hosts, and set TENURE_STORE_PASSWORD"),
        store.watch(SCOPE, after=Revision(0)) as changes,
    ):
        changes.wait(timeout=NEVER)


def test_who_may_only_read_is_told_when_it_writes(guarded: Guarded, stores: Callable[..., CoordinationStore]) -> None:
    store, other = stores(guarded.add(role="READ")), stores(guarded.add(role="READWRITE"))
    seen = store.list(SCOPE).revision
    with refused("etcd does not permit to commit to scope 'guarded'"):
        put(store, "by-a-reader")
    assert store.read(SCOPE, Key("by-a-reader")) is None
    with store.watch(SCOPE, after=seen) as changes:
        revision = put(other, new_uid())
        assert changes.wait(timeout=NEVER) == revision


def test_who_may_do_nothing_is_told(guarded: Guarded, stores: Callable[..., CoordinationStore]) -> None:
    store = stores(guarded.add(role=None))
    with refused("etcd does not permit to read records"):
        store.list(SCOPE)
    with refused("etcd does not permit to commit to scope"):
        put(store, "a")
    before = guarded.streams()
    with store.watch(SCOPE, after=Revision(1)) as changes:
        for _ in range(2):
            with refused("etcd does not permit to watch scope 'guarded'"):
                changes.wait(timeout=NEVER)
    assert guarded.streams() - before <= 4, "each wait tries twice, the second time with a new token"


def test_the_command_line_says_it_in_one_line(guarded: Guarded) -> None:
    reader, stranger, writer = guarded.add(role="READ"), guarded.add(role=None), guarded.add(role="READWRITE")
    with closing(EtcdStore(guarded.cluster(writer))) as store:
        store.commit(SCOPE, guards=[], writes=[Put(Key("members/of-the-command-line"), b"{}", None)])
    for url, line in (
        (guarded.url(reader, "wrong"), "etcd does not let in this user"),
        (guarded.url(None), "write user@ before the hosts, and set TENURE_STORE_PASSWORD"),
        (guarded.url(stranger), "etcd does not permit to read records"),
    ):
        with soon():
            told = tenure("list", "--store", url, "--scope", SCOPE)
        assert told.code == 4
        assert line in told.error
        assert "wrong" not in told.err
    assert tenure("list", "--store", guarded.url(reader), "--scope", SCOPE).code == 0
    with soon():
        told = tenure("pause", "--store", guarded.url(reader), "--scope", SCOPE)
    assert (told.code, "etcd does not permit to commit" in told.error) == (4, True)
