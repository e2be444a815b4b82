"""The ports of test servers: nobody else gets one before the server listens at it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.kit.servers import free_ports

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_no_port_is_given_twice() -> None:
    first, second = free_ports(20), free_ports(20)
    assert len({*first, *second}) == 40


def test_another_process_gets_other_ports() -> None:
    ours = free_ports(20)
    begins_where_we_do = f"import os; os.getpid = lambda: {os.getpid()}"
    asks = "from tests.kit.servers import free_ports; print(*free_ports(20))"
    command = [sys.executable, "-c", f"{begins_where_we_do}; {asks}"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    theirs = [int(port) for port in answer.split()]
    assert len(theirs) == 20
    assert not {*ours} & {*theirs}


def test_no_outgoing_connection_gets_one() -> None:
    lowest = int(EPHEMERAL.read_text("ascii").split()[0]) if EPHEMERAL.exists() else 32768
    assert max(free_ports(20)) < lowest
