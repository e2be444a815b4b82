"""Pure: who may read a page, and who may act. No I/O, no clock: the caller gives the time.

Promise: a request is answered only if its Host is an address, a name of this machine, or a name that the operator gave:
a foreign name that leads to this machine (DNS rebinding) is none of them. An action needs the token, or a cookie that
was made with it; a request with a cookie also needs an Origin that is the page's own. Secrets are compared in constant
time. A cookie has the name of its operator and an end, and no token; it ends with the token. Not promised: protection
against a person who reads the traffic: use TLS in front of the page.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

TOKEN_LEAST: Final = 16
"""The fewest characters of a token."""
COOKIE: Final = "tenure_ui"
LASTS: Final = timedelta(hours=8)
"""How long an operator stays signed in."""

_NAME: Final = re.compile(r"[\w.@-]{1,64}\Z", re.ASCII)
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Access:
    """`token`: what an operator needs to act; None: nobody acts. `hosts`: names under which the page may be asked, in
    small letters, beside addresses. `reads_openly`: everybody who reaches the page may read it."""

    token: str | None = None
    hosts: frozenset[str] = frozenset()
    reads_openly: bool = True


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """What counts of a request. A header that is not there is empty."""

    host: str
    origin: str = ""
    bearer: str = ""
    """The text behind `Bearer ` in the header Authorization."""
    cookie: str = ""
    """The value of the cookie `COOKIE`."""
    by: str = ""
    """The name that a request with a bearer token gives."""


def is_loopback(host: str) -> bool:
    """Whether an address to listen at is reached from this machine alone, or that of a client is on this machine."""
    if host in _LOOPBACK:
        return True
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return found.is_loopback if mapped is None else mapped.is_loopback


def host_of(netloc: str) -> str:
    """The host of `host`, `host:port` or `[::1]:port`, in small letters; empty: it is none of them."""
    try:
        found = urlsplit(f"//{netloc}")
        _ = found.port  # raises ValueError, too
        return "" if "@" in netloc or found.path or found.query else (found.hostname or "").rstrip(".")
    except ValueError:
        return ""


def is_known_host(netloc: str, names: Collection[str]) -> bool:
    """Whether a Host header names this page. An address is no name, so no foreign name can lead here by it."""
    host = host_of(netloc)
    if not host:
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost") or host in names
    return True


def is_own_origin(asked: RequestFacts) -> bool:
    """Whether the Origin is that of the page itself."""
    return bool(asked.origin) and urlsplit(asked.origin).netloc.lower() == asked.host.lower() != ""


def may_read(access: Access, asked: RequestFacts, *, now_s: float) -> bool:
    """Whether the request may see the pipelines."""
    return access.reads_openly or operator_of(access, asked, now_s=now_s) is not None


def actor_of(access: Access, asked: RequestFacts, *, now_s: float) -> str | None:
    """The name of the operator whose request may change something; None: it may not. A browser sends an Origin with
    such a request, and a cookie alone shows no will: another site could have sent the request."""
    name = operator_of(access, asked, now_s=now_s)
    if name is None or (asked.origin and not is_own_origin(asked)):
        return None
    return name if asked.bearer or is_own_origin(asked) else None


def operator_of(access: Access, asked: RequestFacts, *, now_s: float) -> str | None:
    """The name of the operator who is signed in, or gives the token; None: neither. `now_s`: seconds since 1970."""
    if access.token is None:
        return None
    if asked.bearer:
        name = asked.by or "token"
        return name if is_the_token(access.token, asked.bearer) and is_name(name) else None
    return name_in(access.token, asked.cookie, now_s=now_s)


def is_the_token(token: str, given: str) -> bool:
    """Whether the text is the token."""
    return hmac.compare_digest(token.encode(), given.encode(errors="surrogateescape"))


def is_name(name: str) -> bool:
    """Whether an operator may have this name."""
    return _NAME.match(name) is not None


def cookie_for(token: str, name: str, *, now_s: float) -> str:
    """The value of the cookie that lets `name` act until `LASTS` from now."""
    until = int(now_s + LASTS.total_seconds())
    return f"{name}|{until}|{_seal(token, name, until)}"


def name_in(token: str, cookie: str, *, now_s: float) -> str | None:
    """The operator in a cookie; None: it was not made with this token, or it is over."""
    name, until, seal = [*cookie.split("|"), "", ""][:3]
    if not is_name(name) or not until.isdecimal() or not until.isascii():
        return None
    if not hmac.compare_digest(_seal(token, name, int(until)).encode(), seal.encode(errors="surrogateescape")):
        return None
    return name if now_s < int(until) else None


def _seal(token: str, name: str, until: int) -> str:
    return hmac.new(token.encode(), f"tenure ui {name} {until}".encode(), hashlib.sha256).hexdigest()
