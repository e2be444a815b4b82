"""A PostgreSQL primary and its synchronous standby, on loopback.

Promise: the block begins once the standby follows, so each commit that returns is on both. `promote` is what a tool for
failover does once it has decided. Nobody fences the old primary: that is the tests' point.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Final, Self

from tests.kit.servers.postgres import PASSWORD, USER, PostgresServer
from tests.kit.servers.process import free_ports
from tests.kit.waiting import wait_until


class PostgresPair(PostgresServer):
    """Node 0 begins as the primary, node 1 as its standby."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, settings={"synchronous_standby_names": "*"})
        self.ports: Final = (self.port, *free_ports(1))
        self._data = self._own / "standby"
        self._folder = folder

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._follow()
        except BaseException:
            self.close()
            raise
        return self

    def _follow(self) -> None:
        source = f"host=127.0.0.1 port={self.ports[0]} user={USER} password={PASSWORD}"
        copied = [*self._as, f"{self._programs}/pg_basebackup", "-d", source, "-D", str(self._data), "-R", "-c", "fast"]
        environment = {**os.environ, **self._found}
        done = subprocess.run(copied, check=False, capture_output=True, text=True, cwd="/", env=environment)
        assert done.returncode == 0, done.stderr[-2000:]
        standby = self._postmaster(self._data, self.ports[1], self._folder / "standby-log", {})
        self.nodes = (*self.nodes, standby)
        standby.start()
        wait_until(self._is_synchronous, what="the standby to follow")

    def _is_synchronous(self) -> bool:
        with self.connect() as connection:
            found = connection.execute("select sync_state from pg_stat_replication").fetchall()
        return ("sync",) in found

    def hosts(self, *ports: int) -> str:
        """The URL of a store with these ports, in this order; without: with those of both servers."""
        named = ",".join(f"127.0.0.1:{port}" for port in ports or self.ports)
        return f"postgresql://{USER}:{PASSWORD}@{named}/postgres"

    def on(self, number: int) -> Any:
        """A connection of psycopg to one of the servers, in autocommit."""
        return self.connect(port=self.ports[number])

    def promote(self) -> None:
        """Make the standby a primary, which waits for no standby of its own."""
        with self.on(1) as connection:
            assert connection.execute("select pg_promote()").fetchone() == (True,)
