"""The Service `shop` in a namespace of a real API server, and its EndpointSlice as kubectl shows and edits it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.error import HTTPError

from tenure.backends.kubernetes import KubernetesAddress, Place
from tenure.backends.kubernetes.endpoint_slices import EPOCH
from tenure.clock import SystemClock
from tenure.testing.servers import KubernetesServer
from tests.support.kubernetes import RULES, SLICES, member_account

SLICE: Final = "shop-tenure"
PORT: Final = 8008
CLOCK: Final = SystemClock()


class Cluster:
    """A namespace with the Service `shop`, and an account with the rights of members."""

    def __init__(self, server: KubernetesServer, *, rules: tuple[Mapping[str, Any], ...] = (*RULES, *SLICES)) -> None:
        self.server = server
        self.namespace = server.new_namespace()
        self.user = member_account(server, self.namespace, rules=rules)
        self.place = Place(self.namespace, "orders", kubeconfig=str(server.kubeconfig(self.user)))
        self._slices = f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices"
        service = {"ports": [{"name": "probes", "port": PORT}]}
        metadata = {"name": "shop", "namespace": self.namespace}
        server.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service})

    def slice(self) -> dict[str, Any] | None:
        """The slice of the Service; None: there is none."""
        try:
            return self.server.ask("GET", f"{self._slices}/{SLICE}")
        except HTTPError as refused:
            if refused.code != 404:
                raise
            return None

    def change(self, change: Mapping[str, Any]) -> None:
        """Edit the slice, as with kubectl."""
        self.server.ask("PATCH", f"{self._slices}/{SLICE}", change)

    def delete(self) -> None:
        """Delete the slice."""
        self.server.ask("DELETE", f"{self._slices}/{SLICE}")

    def add(self, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> None:
        """Make a slice of this name with an endpoint, as another program would."""
        self.server.apply(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": SLICE,
                    "namespace": self.namespace,
                    "labels": {"kubernetes.io/service-name": "shop", **labels},
                    "annotations": annotations or {},
                },
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.9.9.9"]}],
                "ports": [{"name": "theirs", "port": 80, "protocol": "TCP"}],
            }
        )

    def route(self) -> tuple[int, str | None] | None:
        """The epoch and the address to which the Service leads; None: there is no slice."""
        found = self.slice()
        if found is None:
            return None
        addresses = [one for endpoint in found["endpoints"] or [] for one in endpoint["addresses"]]
        assert len(addresses) < 2
        return int(found["metadata"]["annotations"][EPOCH]), next(iter(addresses), None)

    def address(self, name: str = "shop", *, place: Place | None = None) -> KubernetesAddress:
        """The name of the Service, which the caller closes."""
        return KubernetesAddress(place or self.place, name, clock=CLOCK)
