"""A server that takes connections and never answers, and Hadoop's settings for a service whose NameNode it is.

Promise: what waited for the server has ended when `silence` has ended. A thread that comes back from Rust while Python
ends would abort the process.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tenure import patience
from tests.kit.waiting import wait_until

_SITE = """<configuration>
<property><name>dfs.client.failover.max.attempts</name><value>0</value></property>
<property><name>dfs.ha.namenodes.{service}</name><value>a,b</value></property>
<property><name>dfs.namenode.rpc-address.{service}.a</name><value>{first}</value></property>
<property><name>dfs.namenode.rpc-address.{service}.b</name><value>{second}</value></property>
</configuration>"""


def nameservice(service: str, first: str, second: str) -> str:
    """An `hdfs-site.xml` of a service with two NameNodes at these addresses."""
    return _SITE.format(service=service, first=first, second=second)


@contextmanager
def silence() -> Iterator[ExitStack]:
    """The stack for the servers. At its end their connections are closed."""

    def nobody_waits() -> bool:
        threads = [each for each in threading.enumerate() if each.name == patience.THREAD]
        return len(threads) == len(patience.idle)

    with ExitStack() as sockets:
        yield sockets
    wait_until(nobody_waits, what="the end of the calls that got no answer")


class Silent:
    """The server. Its sockets are closed with the stack."""

    def __init__(self, stack: ExitStack) -> None:
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._listener.setblocking(False)
        self._stack = stack
        self._callers = 0
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def is_asked(self) -> bool:
        """Whether somebody has connected since the last call."""
        before = self._callers
        while True:
            try:
                self._stack.enter_context(self._listener.accept()[0])
            except BlockingIOError:
                return self._callers > before
            self._callers += 1
