"""A PostgreSQL primary and its standby, on loopback.

Promise: the block begins once the standby follows. If it is synchronous, each commit that returns is on both. `promote`
is what a tool for failover does once it has decided. Nobody fences the old primary: that is the tests' point.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import psycopg

from tests.kit.servers.postgres import PASSWORD, USER, PostgresServer
from tests.kit.servers.process import free_ports
from tests.kit.waiting import wait_until


class PostgresPair(PostgresServer):
    """Node 0 begins as the primary, node 1 as its standby."""

    def __init__(self, folder: Path, *, synchronous: bool = True) -> None:
        super().__init__(folder, settings={"synchronous_standby_names": "*"} if synchronous else {})
        self._state: Final = "sync" if synchronous else "async"
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
        wait_until(self._is_followed, what="the standby to follow")

    def _is_followed(self) -> bool:
        with self.connect() as connection:
            found = connection.execute("select state, sync_state from pg_stat_replication").fetchall()
        return ("streaming", self._state) in found

    def wait_until_equal(self) -> None:
        """Return when the standby has all that the primary has committed."""

        def is_equal() -> bool:
            with self.connect() as connection:
                found = connection.execute("select replay_lsn = pg_current_wal_lsn() from pg_stat_replication")
                return (True,) in found.fetchall()

        wait_until(is_equal, what="the standby to have all commits")

    def hosts(self, *ports: int) -> str:
        """The URL of a store with these ports, in this order; without: with those of both servers."""
        named = ",".join(f"127.0.0.1:{port}" for port in ports or self.ports)
        return f"postgresql://{USER}:{PASSWORD}@{named}/postgres"

    def on(self, number: int) -> Any:
        """A connection of psycopg to one of the servers, in autocommit."""
        return self.connect(port=self.ports[number])

    def promote(self) -> None:
        """Make the standby a primary, once it answers. It waits for no standby of its own."""

        def is_promoted() -> bool:
            with suppress(psycopg.OperationalError), self.on(1) as connection:
                return bool(connection.execute("select pg_promote()").fetchone() == (True,))
            return False

        wait_until(is_promoted, what="the promotion")
