"""`tenure list` on a store URL that is wrong in some way: one line, its exit code, soon."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Final

from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tests.cli.support import Told
from tests.kit.conformance.fixture import put_new
from tests.kit.members import MAIN
from tests.kit.waiting import NEVER_S

SCOPE: Final = "somewhere"
CONNECT_TIMEOUT_S: Final = 2
_USER: Final = re.compile(r"(?P<name>\w+://\w+):(?P<password>[^@/]*)@")
NOBODY: Final = "nobody-has-this-name.invalid"
"""A host name that no resolver knows (RFC 2606)."""


def ask(url: str, *command: str) -> Told:
    """What a command says, `tenure list` by default, that has to end soon. A process: libraries print, too. The
    password of the URL's user reaches it by its environment."""
    environment = dict(os.environ)
    if (user := _USER.match(url)) is not None:
        environment["TENURE_STORE_PASSWORD"] = user["password"]
        url = f"{user['name']}@{url[user.end() :]}"
    joined = f"{url}{'&' if '?' in url else '?'}connect_timeout={CONNECT_TIMEOUT_S}s"
    line = [*MAIN, *(command or ("list",)), "--store", joined, "--scope", SCOPE]
    done = subprocess.run(line, capture_output=True, text=True, timeout=NEVER_S, check=False, env=environment)
    return Told(done.returncode, done.stdout, done.stderr)


def pause_at(url: str) -> None:
    """Make the scope: write the record of a pause, as `tenure pause` does in a scope that is there."""
    with closing(open_store(url, clock=SystemClock())) as store:
        put_new(store, "paused", b"{}", scope=Scope(SCOPE))


def refused(url: str, *command: str) -> str:
    """The one line of a command that ends because the store is not available."""
    told = ask(url, *command)
    assert told.code == 4
    assert (told.out, len(told.err.splitlines())) == ("", 1), told.err
    return told.error


@contextmanager
def nowhere() -> Iterator[str]:
    """`host:port` of a machine that is gone: packets to it are dropped, and nothing comes back."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # what waits to be accepted is full, and nobody accepts
            line = stack.enter_context(socket.socket())
            line.setblocking(False)
            line.connect_ex(server.getsockname())
        yield f"127.0.0.1:{server.getsockname()[1]}"
