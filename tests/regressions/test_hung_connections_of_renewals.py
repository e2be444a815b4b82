"""A renewal of a Lease whose connection hung took the whole time to connect of the store URL, 5 s, whatever the ttl. So
a session with a short ttl had no second try in time. An API server that starts takes connections before it answers."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

from tenure.backends.kubernetes.api import Api
from tenure.backends.kubernetes.url import Place
from tenure.clock import SystemClock
from tenure.errors import OutcomeUnknown
from tests.kit.waiting import NEVER_S


def test_a_request_that_may_take_a_moment_connects_for_no_longer(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:  # nobody accepts
        config = {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{server.getsockname()[1]}"}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config), encoding="utf-8")
        ever = timedelta(seconds=100 * NEVER_S)
        api = Api(Place("pipelines", "tenure", kubeconfig=str(path), connect_timeout=ever), clock=SystemClock())
        renewing = pool.submit(api.write, "PUT", "/apis/x/namespaces/y/leases/z", "renew", body={}, timeout_s=0.2)
        try:
            error = renewing.exception(NEVER_S)
        finally:
            server.close()  # ends a connection that hangs
    assert isinstance(error, OutcomeUnknown)
    assert "timed out" in str(error)
