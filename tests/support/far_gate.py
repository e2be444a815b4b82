"""A gate before S3 in a process of its own: delta-rs keeps Python from running while it asks for some things, and so
would keep a gate in its own process from answering."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Client, Listener
from types import SimpleNamespace
from typing import Any, Self, cast

from tests.kit.servers import SeaweedFs
from tests.s3 import PASS, Gate


@dataclass(frozen=True, slots=True)
class Order:
    """What becomes of the puts of keys with `part`: of the first only, or of each; and of all other requests."""

    what: str = PASS
    part: str = ""
    once: bool = False
    others: str = PASS

    def rule(self) -> Callable[[str, str], str]:
        """As a rule of the gate."""
        met: list[str] = []
        lock = threading.Lock()

        def of(method: str, path: str) -> str:
            with lock:
                if method != "PUT" or self.part not in path or (self.once and met):
                    return self.others
                met.append(path)
                return self.what

        return of


class FarGate:
    """A gate before a server. Used by one thread."""

    def __init__(self, server: SeaweedFs) -> None:
        self._port = server.port
        self.url = ""

    def __enter__(self) -> Self:
        with Listener() as listener:
            command = [sys.executable, "-m", "tests.support.far_gate", str(listener.address), str(self._port)]
            self._process = subprocess.Popen(command)
            self._line = listener.accept()
        self.url = self._line.recv()
        return self

    def __exit__(self, *error: object) -> None:
        self._line.send(None)
        self._line.close()
        self._process.wait()

    def obey(self, order: Order) -> None:
        """Do this from now on."""
        self._line.send(order)
        self._line.recv()

    def seen(self) -> list[tuple[str, str, str]]:
        """Method, path and fate of each request since the last order."""
        self._line.send("seen")
        return cast(list[tuple[str, str, str]], self._line.recv())

    def became(self, what: str) -> int:
        """How many requests this became of since the last order."""
        return sum(became == what for _, _, became in self.seen())

    def puts(self) -> int:
        """How many puts came since the last order."""
        return sum(method == "PUT" for method, _, _ in self.seen())


def serve(address: str, port: int) -> None:
    """Serve the process at the address until it says no more."""
    server: Any = SimpleNamespace(port=port)
    with Client(address) as line, Gate(server) as gate:
        line.send(gate.url)
        while (told := line.recv()) is not None:
            if told == "seen":
                line.send(list(gate.seen))
            else:
                gate.seen.clear()
                gate.rule = told.rule()
                line.send(None)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
