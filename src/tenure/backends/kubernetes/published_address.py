"""A published address on a Kubernetes API server: the EndpointSlice of a Service without selector.

Promise: the contract of `coordination.published_address`. A slice is created where there is none, and else replaced by
its resourceVersion, after its labels and annotations were judged. Its requests go over a connection of their own, so
they never stand in the way of a commit.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from tenure.backends.kubernetes.api import Api
from tenure.backends.kubernetes.endpoint_slices import Publication, new_slice, obstacle, replaced, shows, slice_name
from tenure.backends.kubernetes.errors import CONFLICT, INVALID, NOT_FOUND, NoAnswer, Refused, outcome, unavailable
from tenure.backends.kubernetes.url import Place
from tenure.clock import Clock
from tenure.coordination.records import Scope
from tenure.errors import NotPublished, StoreUnavailable

_ATTEMPTS: Final = 10
"""How often a slice is read again that others edit meanwhile."""


class KubernetesAddress:
    """An address as an endpoint of the Service `name`."""

    def __init__(self, place: Place, name: str, *, clock: Clock) -> None:
        self.name: Final = name
        self._store = place.name
        self._api = Api(place, clock=clock)

    def publish(self, scope: Scope, *, epoch: int, address: str, port: int) -> None:
        """See `PublishedAddress.publish`."""
        self._keep(Publication(self.name, self._store, scope, epoch, address, port))

    def withdraw(self, scope: Scope, *, epoch: int) -> None:
        """See `PublishedAddress.withdraw`."""
        with suppress(NotPublished):  # this process has nothing there
            self._keep(Publication(self.name, self._store, scope, epoch, address=None, port=None))

    def close(self) -> None:
        """See `PublishedAddress.close`."""
        self._api.close()

    def _keep(self, wanted: Publication) -> None:
        for _ in range(_ATTEMPTS):
            found = self._found()
            if found is None and wanted.address is None:
                return
            if found is not None:
                why = obstacle(found, wanted)
                if why is not None:
                    raise self._refusal(wanted, why)
                if shows(found, wanted):
                    return
            if self._written(found, wanted):
                return
        raise StoreUnavailable(f"{self._where} changes faster than it can be replaced")

    def _found(self) -> dict[str, Any] | None:
        """The slice; None: there is none. Raises StoreUnavailable."""
        try:
            return self._api.ask("GET", self._path(slice_name(self.name)))
        except Refused as refused:
            if refused.status == NOT_FOUND:
                return None
            raise unavailable(refused, f"read {self._where}") from refused
        except NoAnswer as silent:
            raise unavailable(silent, f"read {self._where}") from silent

    def _written(self, found: dict[str, Any] | None, wanted: Publication) -> bool:
        """Whether the publication has taken the place of `found`; no: another writer was faster. Raises NotPublished,
        StoreUnavailable, OutcomeUnknown."""
        try:
            if found is None:
                self._api.ask("POST", self._path(), body=new_slice(wanted))
            else:
                self._api.ask("PUT", self._path(slice_name(self.name)), body=replaced(found, wanted))
        except Refused as refused:
            if refused.status == CONFLICT or (refused.status == NOT_FOUND and found is not None):
                return False
            if refused.status == INVALID:
                raise self._refusal(wanted, str(refused)) from refused
            raise outcome(refused, f"write {self._where}") from refused
        except NoAnswer as silent:
            raise outcome(silent, f"write {self._where}") from silent
        return True

    def _refusal(self, wanted: Publication, why: str) -> NotPublished:
        return NotPublished(
            f"{self._where} is not replaced by epoch {wanted.epoch} of scope {wanted.scope!r}: {why}",
            fix="delete it, or name another Service",
        )

    @property
    def _where(self) -> str:
        return f"EndpointSlice {self._api.namespace}/{slice_name(self.name)}"

    def _path(self, name: str | None = None) -> str:
        all_of_them = f"/apis/discovery.k8s.io/v1/namespaces/{self._api.namespace}/endpointslices"
        return all_of_them if name is None else f"{all_of_them}/{name}"
