"""A real PostgreSQL on loopback, of the distribution's package (`scripts/setup.sh postgres`).

Promise: `start` returns when a statement is answered. PostgreSQL refuses to run as root; then its files, and its
programs unless they are installed, are in a folder of their own that the user `nobody` reads, and go with the block.
A signal reaches the processes of all connections, which are groups of their own: a postmaster that is stopped alone
lets them go on.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tenure.agent.processes import processes
from tests.kit.process import GroupProcess, is_stopped
from tests.kit.servers.process import Servers, free_ports
from tests.kit.servers.programs import need
from tests.kit.waiting import wait_until

USER: Final = "tenure"
PASSWORD: Final = "the-password-of-postgres"
UNPACKED: Final = Path(sys.prefix) / "postgres"
"""Where `scripts/setup.sh` unpacks it, unless it is installed."""
NOBODY: Final = 65534
_AS_NOBODY: Final = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


class Postmaster(GroupProcess):
    """The postmaster and its children."""

    def signal(self, number: int) -> None:
        """SIGSTOP and SIGKILL reach the children, too: the postmaster is stopped first, so it starts no others."""
        if number not in (signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL) or not self.running:
            super().signal(number)
            return
        if number != signal.SIGCONT:
            super().signal(signal.SIGSTOP)
        for child in self.children():
            with suppress(ProcessLookupError):
                os.kill(child, number)
        super().signal(number)

    def pause(self) -> None:
        super().pause()
        wait_until(lambda: all(map(is_stopped, self.children())), what="the stop of all processes")

    def children(self) -> list[int]:
        """The processes that the postmaster has started, that of each connection among them."""
        return [one.pid for one in processes() if one.parent == self.pid]


class PostgresServer(Servers):
    """One server; data and log go below `folder`. `settings`: of postgresql.conf."""

    def __init__(self, folder: Path, *, settings: Mapping[str, str] | None = None) -> None:
        (self.port,) = free_ports(1)
        self.url: Final = f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"
        """Of the database, without the password."""
        folder.mkdir(parents=True, exist_ok=True)
        is_root = os.geteuid() == 0
        self._own = Path(tempfile.mkdtemp(prefix="tenure-postgres-")) if is_root else folder
        if is_root:
            os.chown(self._own, NOBODY, NOBODY)
        self._as = _AS_NOBODY if is_root else ()
        data, programs = self._own / "data", programs_of_postgres()
        root = UNPACKED if programs.is_relative_to(UNPACKED) else None
        if root is not None and is_root:
            shutil.copytree(root / "usr", self._own / "usr", symlinks=True)
            programs, root = self._own / programs.relative_to(root), self._own
        password = self._own / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        made = [*self._as, f"{programs}/initdb", "-D", str(data), "-U", USER, f"--pwfile={password}"]
        made += ["-A", "scram-sha-256", "-E", "UTF8", "--no-locale", "--no-sync"]
        libraries = [] if root is None else sorted(map(str, (root / "usr" / "lib").glob("*-linux-*")))
        found = {"LD_LIBRARY_PATH": ":".join(libraries)} if libraries else {}
        done = subprocess.run(made, check=False, capture_output=True, text=True, cwd="/", env={**os.environ, **found})
        assert done.returncode == 0, done.stderr[-2000:]
        self._programs, self._found = programs, found
        self.nodes: tuple[Postmaster, ...] = (self._postmaster(data, self.port, folder / "log", settings or {}),)

    def store(self, schema: str) -> str:
        """The URL of a store in this schema, with the password."""
        return f"{self.url.replace('@', f':{PASSWORD}@', 1)}?schema={schema.replace('-', '_').lower()}"

    def _postmaster(self, data: Path, port: int, log: Path, settings: Mapping[str, str]) -> Postmaster:
        # A laboratory opens a client for each contender, and closes them at its end.
        given = {"jit": "off", "log_min_messages": "warning", "max_connections": "500", **settings}
        command = [*self._as, f"{self._programs}/postgres", "-D", str(data), "-p", str(port), "-h", "127.0.0.1"]
        command += ["-k", "", *(word for name, value in given.items() for word in ("-c", f"{name}={value}"))]
        return Postmaster(command, log=log, environment=self._found)

    def answers(self, number: int) -> bool:
        """Whether a statement is answered."""
        import psycopg

        try:
            with self.connect() as connection:
                connection.execute("select 1")
        except psycopg.OperationalError:
            return False
        return True

    def connect(self, **parameters: Any) -> Any:
        """A connection of psycopg, in autocommit."""
        import psycopg

        return psycopg.connect(self.url, password=PASSWORD, autocommit=True, **parameters)

    def close(self) -> None:
        """Kill the server and remove its own folder."""
        super().close()
        if self._as:
            shutil.rmtree(self._own, ignore_errors=True)


def environment() -> Mapping[str, str]:
    """The environment with which clients reach the server."""
    return {"PGPASSWORD": PASSWORD}


def programs_of_postgres() -> Path:
    """The folder of initdb and postgres."""
    places = [UNPACKED / "usr/lib/postgresql", Path("/usr/lib/postgresql")]
    found = [str(path.parent) for place in places for path in sorted(place.glob("*/bin/initdb"))]
    fix = "run scripts/setup.sh postgres, or set TENURE_TEST_POSTGRES to the folder of initdb"
    return Path(need(os.environ.get("TENURE_TEST_POSTGRES") or "".join(found[-1:]), "PostgreSQL", fix=fix))
