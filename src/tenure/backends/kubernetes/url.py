"""The place in a Kubernetes cluster that a store URL names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote

from tenure.durations import parse_duration
from tenure.errors import UsageError

_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z")
NAME_MOST: Final = 63
"""Characters of a namespace, and of a label's value, by the rules of Kubernetes (RFC 1123)."""

_OPTIONS: Final = ("connect_timeout", "context", "kubeconfig", "request_timeout")


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


def place_of(url: SplitResult) -> Place:
    """The place of `kubernetes://NAMESPACE/NAME?context=C`. Raises UsageError."""
    shown = url.geturl()
    form = "write kubernetes://NAMESPACE/NAME, or kubernetes:///NAME for the namespace that is in use"
    namespace, name = unquote(url.netloc), unquote(url.path).strip("/")
    for what, value in (("namespace", namespace), ("name", name)):
        if (value or what == "name") and not (_LABEL.match(value) and len(value) <= NAME_MOST):
            named = f"{what} {value!r}" if value else f"no {what}"
            raise UsageError(
                f"store URL {shown!r} has {named}: lower-case letters, digits and '-' are permitted, at most {NAME_MOST}",
                fix=form,
            )
    if url.fragment:
        raise UsageError(f"store URL {shown!r} has a '#'", fix="write %23 where it is meant")
    options = dict(parse_qsl(url.query, keep_blank_values=True))
    unknown = sorted(options.keys() - set(_OPTIONS))
    if unknown:
        raise UsageError(
            f"store URL {shown!r} has option {unknown[0]!r}, which kubernetes has not",
            fix=f"use one of: {', '.join(_OPTIONS)}",
        )
    return Place(
        namespace=namespace or None,
        name=name,
        context=options.get("context"),
        kubeconfig=options.get("kubeconfig"),
        connect_timeout=_duration(options, "connect_timeout"),
        request_timeout=_duration(options, "request_timeout"),
    )


def _duration(options: dict[str, str], option: str) -> timedelta:
    value = options.get(option)
    if value is None:
        return timedelta(seconds=5)
    try:
        return parse_duration(value)
    except ValueError as error:
        raise UsageError(f"option {option}={value!r} of the store URL is no time: {error}") from error
