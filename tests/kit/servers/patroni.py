"""A real Patroni on loopback: nodes with a PostgreSQL each, and an etcd (`scripts/setup.sh patroni`).

Promise: the block begins once one node is the primary and all others follow it. A signal to a node reaches Patroni or
its PostgreSQL or both, as the name of the method says. As root, all run as the user `nobody`, who may read every file.
Timings are the shortest that Patroni permits: ttl 20 s, loop_wait 1 s, retry_timeout 3 s.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import psycopg

from tenure.agent.processes import processes
from tests.kit.process import GroupProcess, is_stopped
from tests.kit.servers.etcd import EtcdCluster
from tests.kit.servers.postgres import NOBODY, PASSWORD, UNPACKED, USER, programs_of_postgres
from tests.kit.servers.process import Servers, free_ports
from tests.kit.servers.programs import need
from tests.kit.waiting import wait_until

TTL_S: Final = 20
_FIX: Final = "run scripts/setup.sh patroni, or set TENURE_TEST_PATRONI to a folder of pip install --target"
_READS_ALL: Final = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
_AS_NOBODY: Final = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *_READS_ALL)
SYNCHRONOUS: Final[Mapping[str, Any]] = {"synchronous_mode": True, "synchronous_mode_strict": True}
_SMALL: Final = {"max_connections": "100", "shared_buffers": "16MB", "jit": "off", "unix_socket_directories": ""}


class PatroniCluster(Servers):
    """Nodes n0, n1, ...; data and logs go below `folder`. `settings`: Patroni's dynamic ones."""

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 3,
        settings: Mapping[str, Any] = SYNCHRONOUS,
        pg_settings: Mapping[str, str] | None = None,
    ) -> None:
        """`pg_settings`: of postgresql.conf. Raises NotInstalled."""
        self._packages = _packages()
        self._programs = programs_of_postgres()
        self.etcd: Final = EtcdCluster(folder, nodes=1)
        is_root = os.geteuid() == 0
        self._own = Path(tempfile.mkdtemp(prefix="tenure-patroni-")) if is_root else folder
        self._as = _AS_NOBODY if is_root else ()
        ports = free_ports(2 * nodes)
        self.ports: Final = tuple(ports[:nodes])
        """Of PostgreSQL."""
        self._rest = ports[nodes:]
        dynamic = {
            **{"ttl": TTL_S, "loop_wait": 1, "retry_timeout": 3, "maximum_lag_on_failover": 1048576},
            "postgresql": {"use_pg_rewind": True, "use_slots": True, "parameters": {**_SMALL, **(pg_settings or {})}},
            **settings,
        }
        self.nodes = tuple(self._node(number, folder / f"patroni{number}-log", dynamic) for number in range(nodes))
        if is_root:
            for path in (self._own, *self._own.rglob("*")):
                os.chown(path, NOBODY, NOBODY)

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self.wait_until_whole()
        except BaseException:
            self.close()
            raise
        return self

    def start(self) -> None:
        self.etcd.start()
        super().start()

    def answers(self, number: int) -> bool:
        """Whether the node's PostgreSQL runs, as Patroni says."""
        return self._status(number, "health") == 200

    def close(self) -> None:
        """Kill all and remove the own folder."""
        super().close()
        for number in range(len(self.nodes)):
            for pid in self.postgres_pids(number):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.etcd.close()
        if self._as:
            shutil.rmtree(self._own, ignore_errors=True)

    # --- what it says -------------------------------------------------------------------------------------------

    def url(self, *numbers: int) -> str:
        """The URL of a store with these nodes, in this order; without: with all."""
        named = ",".join(f"127.0.0.1:{self.ports[number]}" for number in numbers or range(len(self.nodes)))
        return f"postgresql://{USER}:{PASSWORD}@{named}/postgres"

    def primaries(self) -> list[int]:
        """The nodes that say that they are the primary and have the lock of etcd."""
        return [number for number in range(len(self.nodes)) if self._status(number, "primary") == 200]

    def primary(self) -> int:
        """The one primary. Waits for it."""
        return wait_until(lambda: [only] if len(only := self.primaries()) == 1 else [], what="one primary")[0][0]

    def wait_until_promoted(self, old: int) -> None:
        """Return when another node than `old` is the primary."""
        wait_until(lambda: any(number != old for number in self.primaries()), what=f"the successor of n{old}")

    def wait_until_whole(self) -> None:
        """Return when every node that runs follows the primary, and the synchronous standby is known to etcd."""
        wait_until(self._is_whole, what="a primary that every node follows")

    def synchronous(self) -> list[int]:
        """The nodes that Patroni calls synchronous standbys, or standbys of the quorum."""
        nodes = range(len(self.nodes))
        return [number for number in nodes if 200 in (self._status(number, "sync"), self._status(number, "quorum"))]

    def connect(self, number: int, **parameters: Any) -> Any:
        """A connection of psycopg to a node, in autocommit."""
        return psycopg.connect(self.url(number), autocommit=True, connect_timeout=3, **parameters)

    # --- what is done to it -------------------------------------------------------------------------------------

    def ctl(self, *words: str) -> str:
        """What patronictl prints. Raises AssertionError: it fails."""
        call = "import sys; from patroni.ctl import ctl; sys.exit(ctl())"
        command = [*self._as, sys.executable, "-c", call, "-c", str(self._own / "n0.yml"), *words]
        environment = {**os.environ, "PYTHONPATH": str(self._packages), "HOME": str(self._own)}
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd="/", env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def postgres_pids(self, number: int) -> list[int]:
        """The postmaster of a node and its children; the postmaster first."""
        try:
            postmaster = int((self._data(number) / "postmaster.pid").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return []
        known = list(processes())
        if not any(one.pid == postmaster for one in known):
            return []
        return [postmaster, *(one.pid for one in known if one.parent == postmaster)]

    def kill_postgres(self, number: int) -> None:
        """Kill the postmaster and its children; Patroni lives."""
        self._signal_postgres(number, signal.SIGKILL)

    def freeze(self, number: int) -> None:
        """Stop Patroni and its PostgreSQL, as a machine that is paused."""
        self.nodes[number].pause()
        self._signal_postgres(number, signal.SIGSTOP)
        wait_until(lambda: all(map(is_stopped, self.postgres_pids(number))), what="the stop of all processes")

    def thaw(self, number: int) -> None:
        self._signal_postgres(number, signal.SIGCONT)
        self.nodes[number].wake()

    # --- inside -------------------------------------------------------------------------------------------------

    def _signal_postgres(self, number: int, signal_number: int) -> None:
        """The postmaster is stopped first, so it starts no others, and is told last."""
        pids = self.postgres_pids(number)
        for pid in pids[:1]:
            if signal_number != signal.SIGCONT:
                os.kill(pid, signal.SIGSTOP)
        for pid in (*self.postgres_pids(number)[1:], *pids[:1]):
            with suppress(ProcessLookupError):
                os.kill(pid, signal_number)

    def _data(self, number: int) -> Path:
        return self._own / f"data{number}"

    def _status(self, number: int, what: str) -> int:
        """The status of a node's answer over REST; 0: none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._rest[number]}/{what}", timeout=2) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def _is_whole(self) -> bool:
        running = [number for number, node in enumerate(self.nodes) if node.running]
        primaries = self.primaries()
        if len(primaries) != 1:
            return False
        try:
            with self.connect(primaries[0]) as connection:
                (wanted,) = connection.execute("show synchronous_standby_names").fetchone()
                states = connection.execute("select application_name, state from pg_stat_replication").fetchall()
        except psycopg.OperationalError:
            return False
        following = {name for name, state in states if state == "streaming"}
        others = {f"n{number}" for number in running} - {f"n{primaries[0]}"}
        is_synchronous = not wanted or (wanted != "*" and bool(self.synchronous()))
        return others <= following and is_synchronous

    def _node(self, number: int, log: Path, dynamic: Mapping[str, Any]) -> GroupProcess:
        me, rest = f"127.0.0.1:{self.ports[number]}", f"127.0.0.1:{self._rest[number]}"
        account = {"username": USER, "password": PASSWORD}
        settings = {
            **{"scope": "tenure", "name": f"n{number}"},
            "restapi": {"listen": rest, "connect_address": rest},
            "etcd3": {"host": self.etcd.endpoints[0]},
            "bootstrap": {
                "dcs": dynamic,
                "initdb": [{"encoding": "UTF8"}, "no-locale", "no-sync", {"auth": "scram-sha-256"}],
            },
            "postgresql": {
                **{"listen": me, "connect_address": me, "bin_dir": str(self._programs)},
                **{"data_dir": str(self._data(number)), "pgpass": str(self._own / f"pgpass{number}")},
                "authentication": {"superuser": account, "replication": account, "rewind": account},
                "pg_hba": [f"host {what} all 127.0.0.1/32 scram-sha-256" for what in ("all", "replication")],
                "basebackup": [{"checkpoint": "fast"}],
            },
        }
        path = self._own / f"n{number}.yml"
        path.write_text(json.dumps(settings, indent=1))  # JSON is YAML
        environment = {"PYTHONPATH": str(self._packages), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(self._own)}
        if self._programs.is_relative_to(UNPACKED):
            libraries = sorted(map(str, (UNPACKED / "usr" / "lib").glob("*-linux-*")))
            environment["LD_LIBRARY_PATH"] = ":".join(libraries)
        command = [*self._as, sys.executable, "-m", "patroni", str(path)]
        return GroupProcess(command, log=log, environment=environment)


def _packages() -> Path:
    """The folder with Patroni's packages. Raises NotInstalled."""
    given = os.environ.get("TENURE_TEST_PATRONI") or str(Path(sys.prefix) / "patroni")
    return Path(need(given if Path(given, "patroni").is_dir() else None, "Patroni", fix=_FIX))
