"""One connection to the ensemble, with one session of ZooKeeper, for its whole life.

Promise: the connection is over when its session has expired, and sends nothing under another session: kazoo alone would
open a new session, and send the requests of the old session in it. A request that waits for an answer when the line
breaks fails, and is never sent again. Not promised: that a request that timed out is not applied later.

Uses parts of kazoo that kazoo does not document: overrides `_connect_attempt`, `_expand_client_hosts`, `_invoke`,
`_read_watch_event` and `_send_ping` of the connection, replaces the client's connection (`_connection`, `_conn_retry`),
reads `_session_id` and `_socket`, and ends without closing the session by `_stopped` and `_safe_close`. So kazoo is
pinned below its next minor release, and `tests/unit/backends/test_zookeeper_connection.py` names the parts that a later
release lacks.
"""

from __future__ import annotations

import logging
import math
import select
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, KazooException, ZookeeperError
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.handlers.utils import fileobj_to_fd
from kazoo.protocol.connection import STOP_CONNECTING, ConnectionHandler
from kazoo.protocol.serialization import Connect, Watch
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.security import ACL

from tenure.backends.zookeeper.errors import NOT_ANSWERED, unavailable
from tenure.errors import StoreUnavailable

_LISTEN_S: Final = 2.0
"""How long a line is listened to that the server may close at once."""

_ROUNDS: Final = 8
"""In how many rounds, up to half a second apart, a silent server is passed over: most elections take less time."""


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Where the ensemble is, and who we are to it."""

    hosts: str
    """`host:port`, joined by commas."""
    chroot: str = ""
    """The path above all scopes; empty: the root."""
    auth: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Schemes and credentials: `("digest", "user:password")`."""
    sasl: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Options of kazoo's SASL client."""
    tls: tuple[tuple[str, Any], ...] = ()
    """kazoo's options for TLS."""
    acl: tuple[ACL, ...] | None = None
    """The ACL of new nodes; None: open to everybody."""
    connect_timeout: timedelta = timedelta(seconds=5)
    request_timeout: timedelta = timedelta(seconds=10)


class _Threads(SequentialThreadingHandler):  # type: ignore[misc] # kazoo ships no type information
    """One thread of kazoo for a connection. Opening a line takes a server's share of the time to connect at most."""

    def __init__(self, *, share_s: float) -> None:
        super().__init__()
        self.share_s = share_s

    def start(self) -> None:
        """kazoo alone would start a thread for completions and one for watches. Without them the thread of the line
        completes its answers, and `_read_watch_event` hands watches on."""

    def select(
        self, rlist: Sequence[Any], wlist: Sequence[Any], xlist: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """As `select.select`, for any number of open files. kazoo alone makes an epoll, and closes it, five times for
        each request: a fifth of its processor time. Raises TypeError, ValueError: a file is closed."""
        poll = select.poll()
        files: dict[int, Any] = {}
        for event, ones in ((select.POLLIN, rlist), (select.POLLOUT, wlist)):
            for one in ones:
                files[fileobj_to_fd(one)] = one
                poll.register(one, event)
        found = poll.poll(None if timeout is None else math.ceil(timeout * 1000))
        if any(events & select.POLLNVAL for _, events in found):
            raise ValueError("a file is closed")
        ready = [files[number] for number, _ in found]
        return [one for one in ready if one in rlist], [one for one in ready if one in wlist], []

    def create_connection(self, *args: Any, timeout: float, **kwargs: Any) -> Any:
        return super().create_connection(*args, timeout=min(timeout, self.share_s), **kwargs)


class _Handler(ConnectionHandler):  # type: ignore[misc] # kazoo ships no type information
    """kazoo's connection, for one session: it ends when the session has expired, knows the ttl of the session, and
    passes over silent servers, each of which would take its share of the time to connect in every round."""

    ttl_s: float | None = None
    """How long the ensemble keeps the session without a request; None: there was no session yet."""
    pings = True
    """Whether an idle connection keeps its session alive."""
    silent = False
    """Whether the current server has left a request without an answer; set by any thread."""
    abandoned = False
    """Whether no line is wanted any more; set by any thread, before it breaks the line."""
    expired = False
    """Whether a server has answered that the session has ended."""
    heard: Callable[[str], None]
    """Called with the path of each event of a watch, in the order in which events and answers come."""
    turned_away = False
    """Whether a server has closed a line before it began or resumed the session, and none has done so since."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.settled = threading.Event()
        """Set when the session was begun or resumed, or has expired."""
        self._passed_over: dict[tuple[str, int], int] = {}
        """Silent servers -> the rounds in which they are still passed over. Only kazoo's thread uses this."""

    def _expand_client_hosts(self) -> Any:
        found = super()._expand_client_hosts()
        self._passed_over = {server: rounds - 1 for server, rounds in self._passed_over.items() if rounds > 0}
        return [one for one in found if one[1:] not in self._passed_over] or found

    def _connect_attempt(self, host: str, ip: str, port: int, *args: Any) -> Any:
        if self.ttl_s is not None and self.client._session_id is None:
            self.expired = True
            self.settled.set()
            return STOP_CONNECTING  # the session has expired: kazoo would open another session
        self.silent = False
        try:
            return super()._connect_attempt(host, ip, port, *args)
        finally:
            if self.silent:
                self._passed_over[ip, port] = _ROUNDS

    def _invoke(self, timeout: float, *args: Any, **kwargs: Any) -> Any:
        """A request while the line is opened. kazoo alone would wait for a silent server until the session's ttl, and
        keep a line for good that it began to open before it was stopped."""
        if self.abandoned:  # `drop` may have looked for the line before there was a line
            raise ConnectionDropped("the connection was abandoned")
        try:
            answer = super()._invoke(min(timeout, self.handler.share_s), *args, **kwargs)
        except KazooTimeoutError:
            self.silent = True
            raise
        except ConnectionDropped:
            self.turned_away = self.turned_away or isinstance(args[0], Connect)
            raise
        if isinstance(args[0], Connect) and answer[0].time_out > 0:  # 0: the session has expired
            self.ttl_s = answer[0].time_out / 1000
            self.turned_away = False
            self._passed_over.clear()  # in the next outage, a server that was silent may be the only server there
        return answer

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        """kazoo alone would hand the event to another thread, which may see it after a later answer."""
        event, _ = Watch.deserialize(buffer, offset)
        self.heard(self.client.unchroot(event.path))

    def _send_ping(self, connect_timeout: float) -> None:
        if self.pings:
            super()._send_ping(connect_timeout)

    def drop(self, *, silent: bool) -> None:
        """Break the line, so that kazoo tries another server. `silent`: this server did not answer."""
        self.silent = self.silent or silent
        line = self._socket
        if line is not None:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)


class Connection:
    """A client of kazoo that cannot outlive its session. Thread-safe."""

    def __init__(
        self,
        ensemble: Ensemble,
        *,
        ttl: timedelta,
        pings: bool,
        resumes: tuple[int, bytes] | None = None,
        heard: Callable[[str | None], None] = lambda path: None,
    ) -> None:
        """`ttl`: how long the session lives without a request. `pings`: whether an idle connection sends pings.
        `resumes`: the number and the password of the session; None: `open` begins a session.
        `heard`: called with the path of each event of a watch, and with None when the line breaks: its watches are
        gone. kazoo's thread calls this, so it must not wait."""
        self._ensemble = ensemble
        share_s = min(ensemble.connect_timeout, ttl / 2).total_seconds() / (ensemble.hosts.count(",") + 1)
        self.client = KazooClient(
            handler=_Threads(share_s=share_s),
            hosts=ensemble.hosts + ensemble.chroot,
            timeout=ttl.total_seconds(),
            client_id=resumes,
            auth_data=list(ensemble.auth) or None,
            default_acl=None if ensemble.acl is None else list(ensemble.acl),
            connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 0.5},
            command_retry={"max_tries": 0},
            logger=_QUIET,
            **dict(ensemble.tls),
        )
        self._handler = _Handler(
            self.client, self.client._conn_retry.copy(), logger=_QUIET, sasl_options=dict(ensemble.sasl) or None
        )
        self._handler.pings = pings
        self._handler.heard = self._heard = heard
        if resumes is not None:
            self._handler.ttl_s = ttl.total_seconds()  # where the session has ended, kazoo would begin another
        self.client._connection = self._handler
        self.line = 0
        """The number of the line, one more each time that a line breaks."""
        self._client_id: tuple[int, bytes] | None = None  # None: not open
        self._connected = threading.Event()
        self._over = threading.Event()
        self._refused = False  # set by kazoo's thread, before it is over
        self.client.add_listener(self._note)

    @property
    def over(self) -> bool:
        """Whether its session has ended, or it was closed."""
        return self._over.is_set()

    @property
    def stands(self) -> bool:
        """Whether there is a line now."""
        return self._connected.is_set() and not self.over

    @property
    def ttl(self) -> timedelta:
        """How long the ensemble keeps the session without a request."""
        assert self._handler.ttl_s is not None, "it is not open"
        return timedelta(seconds=self._handler.ttl_s)

    @property
    def session_id(self) -> int:
        """ZooKeeper's number of the session."""
        assert self._client_id is not None, "it is not open"
        return self._client_id[0]

    @property
    def password(self) -> bytes:
        """ZooKeeper's password of the session: with it, another connection resumes the session."""
        assert self._client_id is not None, "it is not open"
        return self._client_id[1]

    @property
    def expired(self) -> bool:
        """Whether a server has answered that the session has ended."""
        return self._handler.expired

    def open(self) -> None:
        """Connect. Raises StoreUnavailable; it is `expired`: the session that it resumes has ended."""
        self.client.start_async()
        self._handler.settled.wait(self._ensemble.connect_timeout.total_seconds())
        found = self.client.client_id
        if found is None:
            refused = self._refused
            self.abandon()
            if refused:
                raise unavailable(AuthFailedError(), "let this user in")
            full = self._turned_away()
            if full is not None:
                raise StoreUnavailable(
                    f"ZooKeeper at {full} takes no more lines from this host: it has as many as maxClientCnxns permits",
                    fix="raise maxClientCnxns of the servers: a member takes two, the leader three, a command one",
                )
            fix = "check the hosts, ports and certificates" if self._ensemble.tls else "check the hosts and ports"
            raise StoreUnavailable(f"ZooKeeper at {self._ensemble.hosts} cannot be reached", fix=fix)
        self._client_id = found

    def ask(self, request: Callable[[KazooClient], Sequence[Any]], *, timeout_s: float | None = None) -> list[Any]:
        """The answers to requests that are sent one after the other, without waiting in between. ZooKeeper's errors are
        answers. Raises the errors of `NOT_ANSWERED`; StoreUnavailable: nothing was sent."""
        wait_s = self._ensemble.request_timeout.total_seconds() if timeout_s is None else timeout_s
        wait_for_line_s = min(wait_s, self._ensemble.connect_timeout.total_seconds())
        if self.over or not self._connected.wait(wait_for_line_s) or self.over:
            if self._refused:  # SASL names the user after the session has begun
                raise unavailable(AuthFailedError(), "let this user in")
            raise StoreUnavailable(f"ZooKeeper at {self._ensemble.hosts} is away; nothing was sent")
        return [_answer(promise, wait_s) for promise in request(self.client)]

    def _turned_away(self) -> str | None:
        """A server that closes a line before it has heard anything, as ZooKeeper does with a line over the limit; None:
        there is none. A server without a leader, another program and TLS first wait for a request."""
        hosts = self._ensemble.hosts.split(",") if self._handler.turned_away else []
        return next((host for host in hosts if _closes_at_once(host)), None)

    def drop(self, *, silent: bool) -> None:
        """Break the line: requests that wait for an answer fail, and kazoo tries another server. `silent`: this server
        did not answer, and is passed over for a while."""
        self._handler.drop(silent=silent)

    def close(self) -> bool:
        """End the session; False: there is no line, and the session ends by its ttl."""
        connected = self.stands
        self._end(close_session=connected)
        return connected

    def abandon(self) -> None:
        """Break the line for good: the session ends by its ttl."""
        self._end(close_session=False)

    def _end(self, *, close_session: bool) -> None:
        self._over.set()
        with suppress(KazooException, KazooTimeoutError, OSError):
            if close_session:
                self.client.stop()
            else:
                self.client._stopped.set()
                self._handler.abandoned = True
                self._handler.drop(silent=False)
                self.client._safe_close()
        if self._handler.connection_stopped.is_set():  # else kazoo's thread still uses the client
            self.client.close()

    def _note(self, state: str) -> None:
        """kazoo calls this in the thread of the connection, before it sends anything else."""
        if state == KazooState.CONNECTED:
            self._connected.set()
            self._handler.settled.set()
        else:
            self._connected.clear()
        if self.client.client_state == KeeperState.AUTH_FAILED:  # it is CLOSED soon
            self._refused = True
        if state == KazooState.LOST:
            self._over.set()
        if state != KazooState.CONNECTED:
            self.line += 1
            self._heard(None)


def barrier(client: KazooClient) -> Any:
    """Ask a majority to agree on an empty multi: the next reads on this line are as new as this moment, and the session
    lives. ZooKeeper's `sync` is not enough: a leader that was stopped and replaced answers it alone, with old data."""
    return client.transaction().commit_async()


def _closes_at_once(host: str) -> bool:
    name, _, port = host.rpartition(":")
    try:
        with socket.create_connection((name.strip("[]"), int(port)), timeout=_LISTEN_S) as line:
            return line.recv(1) == b""
    except (ConnectionResetError, BrokenPipeError):  # the second where the server was faster than `connect`
        return True
    except OSError:  # silence, too
        return False


def _answer(promise: Any, wait_s: float) -> Any:
    try:
        return promise.get(timeout=wait_s)
    except NOT_ANSWERED:
        raise
    except ZookeeperError as error:
        return error


_QUIET = logging.getLogger("tenure.zookeeper")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False
