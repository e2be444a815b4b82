"""A real MariaDB on loopback, of the distribution's package (`scripts/setup.sh mariadb`).

Promise: `start` returns when a statement is answered. The server's files are in a folder of their own, which goes with
the block: the server runs as the user `nobody` where the tests are root's. Its threads are one process, so a signal
reaches all connections.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.kit.process import GroupProcess
from tests.kit.servers.process import Servers, free_ports
from tests.kit.servers.programs import need

USER: Final = "tenure"
PASSWORD: Final = "the-password-of-mariadb"
DATABASE: Final = "outputs"
UNPACKED: Final = Path(sys.prefix) / "mariadb"
"""Where `scripts/setup.sh` unpacks it, unless it is installed."""
NOBODY: Final = 65534
_AS_NOBODY: Final = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
_SYSTEM: Final = ("mysql_system_tables.sql", "mysql_system_tables_data.sql", "mysql_performance_tables.sql")
"""The tables of the server itself, as the package has them."""


class MariaDbServer(Servers):
    """One server; the log goes below `folder`. `settings`: of the server, by their names on the command line."""

    def __init__(self, folder: Path, *, settings: Mapping[str, str] | None = None) -> None:
        (self.port,) = free_ports(1)
        self.url: Final = f"mysql://{USER}@127.0.0.1:{self.port}/{DATABASE}"
        """Of the database, without the password."""
        folder.mkdir(parents=True, exist_ok=True)
        is_root = os.geteuid() == 0
        self._own = Path(tempfile.mkdtemp(prefix="tenure-mariadb-"))
        self._as = _AS_NOBODY if is_root else ()
        (self._own / "data" / "mysql").mkdir(parents=True)
        program = program_of_mariadb()
        if program.is_relative_to(UNPACKED):
            shutil.copytree(UNPACKED / "usr", self._own / "usr", symlinks=True)  # nobody cannot read every folder
            program = self._own / program.relative_to(UNPACKED)
        share = program.parents[1] / "share" / "mysql"
        libraries = (
            sorted(map(str, (program.parents[1] / "lib").glob("*-linux-*"))) if self._own in share.parents else []
        )
        found = {"LD_LIBRARY_PATH": ":".join(libraries)} if libraries else {}
        if is_root:
            for path in (self._own, self._own / "data", self._own / "data" / "mysql"):
                os.chown(path, NOBODY, NOBODY)
        common = [*self._as, str(program), "--no-defaults", f"--datadir={self._own / 'data'}"]
        common += [f"--lc-messages-dir={share}", f"--character-sets-dir={share / 'charsets'}", "--skip-log-bin"]
        common += ["--innodb-buffer-pool-size=64M", "--skip-name-resolve", f"--tmpdir={self._own}"]
        self._make(common, share, found)
        # Nobody takes the power away: what a killed process has written is in the system's memory.
        common += ["--innodb-flush-method=nosync", "--sync-frm=0"]
        given = {"port": str(self.port), "bind-address": "127.0.0.1", "socket": "", "max-connections": "500"}
        given |= {"pid-file": str(self._own / "pid"), **(settings or {})}
        command = [*common, *(f"--{name}={value}" for name, value in given.items())]
        self.nodes: tuple[GroupProcess, ...] = (GroupProcess(command, log=folder / "log", environment=found),)

    def _make(self, common: list[str], share: Path, found: Mapping[str, str]) -> None:
        """The data of a server that knows one user, who may do all that a user of one database may."""
        words = ["use mysql;", *((share / name).read_text(encoding="utf-8") for name in _SYSTEM)]
        words += ["flush privileges;", f"create database {DATABASE};", "create database if not exists other;"]
        words += [
            f"create user {USER}@'%' identified by '{PASSWORD}';",
            f"grant all on *.* to {USER}@'%' with grant option;",
        ]
        made = [*common, "--bootstrap", "--skip-networking"]
        text = "\n".join(words) + "\n"
        done = subprocess.run(
            made, check=False, capture_output=True, text=True, cwd="/", env={**os.environ, **found}, input=text
        )
        assert done.returncode == 0, done.stderr[-2000:]

    def answers(self, number: int) -> bool:
        """Whether a statement is answered."""
        import pymysql

        try:
            self.connect().close()
        except pymysql.err.OperationalError:
            return False
        return True

    def connect(self, **parameters: Any) -> Any:
        """A connection of PyMySQL, in autocommit."""
        import pymysql

        given = {"database": DATABASE, "autocommit": True, "charset": "utf8mb4", **parameters}
        return pymysql.connect(host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, **given)

    def close(self) -> None:
        """Kill the server and remove its own folder."""
        super().close()
        shutil.rmtree(self._own, ignore_errors=True)


def environment() -> Mapping[str, str]:
    """The environment with which clients reach the server."""
    return {"MYSQL_PWD": PASSWORD}


def program_of_mariadb() -> Path:
    """The server."""
    places = (UNPACKED / "usr" / "sbin" / "mariadbd", Path("/usr/sbin/mariadbd"))
    found = [str(path) for path in places if path.exists()]
    fix = "run scripts/setup.sh mariadb, or set TENURE_TEST_MARIADB to the server"
    return Path(need(os.environ.get("TENURE_TEST_MARIADB") or "".join(found[-1:]), "MariaDB", fix=fix))
