"""The place in a Kubernetes cluster that a store URL names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tenure.backends.shared.server_url import StoreUrl
from tenure.errors import UsageError

_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z")
NAME_MOST: Final = 63
"""Characters of a namespace, and of a label's value, by the rules of Kubernetes (RFC 1123)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store is, and how its API server is reached."""

    namespace: str | None
    """None: the namespace of the pod, or of the context."""
    name: str
    """Begins the names of all objects of the store."""
    context: str | None = None
    """Of the kubeconfig; None: its current context."""
    kubeconfig: str | None = None
    """None: the account of the pod, else `KUBECONFIG`, else `~/.kube/config`."""
    connect_timeout: timedelta = timedelta(seconds=5)
    request_timeout: timedelta = timedelta(seconds=5)


def place_of(url: StoreUrl) -> Place:
    """The place of `kubernetes://NAMESPACE/NAME?context=C`. Raises UsageError."""
    name = url.path.removeprefix("/")
    for what, value in (("namespace", url.name), ("name", name)):
        if (value or what == "name") and not (_LABEL.match(value) and len(value) <= NAME_MOST):
            named = f"{what} {value!r}, which is not up to {NAME_MOST} of a-z, 0-9 and '-'" if value else f"no {what}"
            raise UsageError(
                f"store URL {url.shown!r} has {named}",
                fix="write kubernetes://NAMESPACE/NAME, or kubernetes:///NAME for the namespace that is in use",
            )
    return Place(
        namespace=url.name or None,
        name=name,
        context=url.options.get("context"),
        kubeconfig=url.file("kubeconfig"),
        connect_timeout=url.duration("connect_timeout", timedelta(seconds=5)),
        request_timeout=url.duration("request_timeout", timedelta(seconds=5)),
    )
