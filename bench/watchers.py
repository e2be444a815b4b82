"""What watches members, or a `tenure ui`, beside a bench: a Prometheus that scrapes each of them every 5 s, and one
open page: of the newest that serves, and of another when that ends."""

from __future__ import annotations

import json
import threading
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from tests.kit.process import GroupProcess
from tests.kit.servers.process import free_ports
from tests.kit.servers.programs import program

_SCRAPE_S: Final = 5
_AGAIN_S: Final = 0.5
"""Between two attempts to open a page: its member may not serve yet, or be dead."""


class Watchers:
    """Of all members of a bench. `events`: how many updates the page has had so far."""

    def __init__(self, folder: Path, *, page: str) -> None:
        """`page`: the path of the updates of a page. Raises NotInstalled."""
        self.events = 0
        self._page = page
        self._over = threading.Event()
        self._targets = folder / "targets.json"
        self._addresses: list[str] = []
        (port,) = free_ports(1)
        self._prometheus = f"127.0.0.1:{port}"
        config = {
            "global": {"scrape_interval": f"{_SCRAPE_S}s"},
            "scrape_configs": [{"job_name": "tenure", "file_sd_configs": [{"files": [str(self._targets)]}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
        command = [program("prometheus", "Prometheus", fix="run scripts/setup.sh prometheus")]
        command += [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"]
        command += [f"--web.listen-address={self._prometheus}"]
        self._server = GroupProcess(command, log=folder / "prometheus.log")
        self._server.start()
        threading.Thread(target=self._read, daemon=True).start()

    def watch(self) -> str:
        """An address for one more of them, `HOST:PORT`, that is watched from now on."""
        (port,) = free_ports(1)
        self._addresses.append(f"127.0.0.1:{port}")
        self._targets.write_text(json.dumps([{"targets": self._addresses}]), encoding="utf-8")
        return self._addresses[-1]

    def scrapes(self) -> int:
        """How many scrapes had an answer so far."""
        with urlopen(f"http://{self._prometheus}/api/v1/query?query=sum(sum_over_time(up%5B1d%5D))") as answer:
            found = json.load(answer)["data"]["result"]
        return int(float(found[0]["value"][1])) if found else 0

    def close(self) -> None:
        """End them. The reader ends with the members."""
        self._over.set()
        self._server.kill()

    def _read(self) -> None:
        while not self._over.wait(_AGAIN_S):
            for address in reversed(self._addresses[:]):
                try:
                    with urlopen(f"http://{address}{self._page}") as page:
                        for line in page:
                            self.events += line.startswith(b"data:")
                except (OSError, HTTPException):  # its member has ended, or does not serve yet
                    continue
                break
