"""URLs of stores on servers: `scheme://[user[:password]@]host:port,host:port/path?option=value`.

Promise: a part that cannot be used is a UsageError that names the part, and no password. Nothing connects.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from datetime import timedelta
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote

from tenure.coordination.store_url import NAME_A_USER, SET_A_PASSWORD
from tenure.durations import parse_duration
from tenure.errors import UsageError

_HOST = re.compile(r"^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)$")

_ELSEWHERE: Final = {"session_timeout": "leave it out, and say how long a session lives to `tenure run` with --ttl"}
"""Options of other systems' URLs -> the fix."""


def check_password(url: SplitResult) -> None:
    """Raises UsageError: the user's password has a character that ends the hosts of a URL."""
    _, colon, password = url.netloc.partition(":")
    rest = url.path + url.query + url.fragment
    if colon and "@" not in url.netloc and "@" in rest and not password.partition(",")[0].isdigit():
        raise UsageError(
            f"the password in a store URL of {url.scheme} has one of / ? #",
            fix=f"write it as %2F, %3F or %23; better, {NAME_A_USER}",
        )


class StoreUrl:
    """The parts of the URL of a store on servers."""

    def __init__(self, url: SplitResult, *, port: int | None, options: Collection[str]) -> None:
        """`port`: the default; None: the URL names no hosts, but a place. `options`: the names of the permitted
        options. Raises UsageError."""
        self._url = url
        self.scheme = url.scheme
        user, at, hosts = url.netloc.rpartition("@")
        name, colon, password = user.partition(":")
        check_password(url)
        self.user: str | None = unquote(name) if at else None
        """None: the URL names no user."""
        self.password = unquote(password)
        if at and not (name and colon):
            raise UsageError(f"store URL {self.shown!r} names a user, and no password is set", fix=SET_A_PASSWORD)
        self.hosts = () if port is None else tuple(self._host(one, port) for one in hosts.split(","))
        """`host:port` each."""
        self.name = unquote(hosts)
        """The text between the slashes, where the URL names no hosts."""
        self.path = "/" + unquote(url.path).strip("/") if url.path.strip("/") else ""
        """Begins with a slash, and does not end with a slash; empty: there is no path."""
        self.options = dict(parse_qsl(url.query, keep_blank_values=True))
        unknown = sorted(self.options.keys() - set(options))
        if unknown:
            known = f"use one of: {', '.join(sorted(options))}"
            raise UsageError(
                f"store URL {self.shown!r} has option {unknown[0]!r}, which {self.scheme} has not",
                fix=_ELSEWHERE.get(unknown[0], known),
            )
        if url.fragment:
            raise UsageError(f"store URL {self.shown!r} has a '#'", fix="write %23 where it is meant")

    @property
    def shown(self) -> str:
        """The URL without its password."""
        user, at, hosts = self._url.netloc.rpartition("@")
        return self._url._replace(netloc=f"{user.partition(':')[0]}{at}{hosts}").geturl()

    def duration(self, option: str, default: timedelta) -> timedelta:
        """The value of an option that is a time. Raises UsageError."""
        value = self.options.get(option)
        if value is None:
            return default
        try:
            return parse_duration(value)
        except ValueError as error:
            raise UsageError(f"option {option}={value!r} of the store URL is no time: {error}") from error

    def file(self, option: str) -> str | None:
        """The path of an existing file that an option names; None: the option is not given. Raises UsageError."""
        path = self.options.get(option)
        if path is not None and not os.path.isfile(path):
            raise UsageError(f"option {option}={path!r} of the store URL names no file", fix="check the path")
        return path

    def choice(self, option: str, choices: Collection[str]) -> str | None:
        """The value of an option, which is among `choices`; None: the option is not given. Raises UsageError."""
        value = self.options.get(option)
        if value is not None and value not in choices:
            raise UsageError(
                f"option {option}={value!r} of the store URL is unknown", fix=f"use one of: {', '.join(choices)}"
            )
        return value

    def _host(self, text: str, port: int) -> str:
        host, colon, number = text.strip().rpartition(":")
        if not colon or text.endswith("]"):
            host, number = text.strip(), str(port)
        if not _HOST.match(host) or not number.isdigit() or not 0 < int(number) < 65536:
            raise UsageError(f"store URL {self.shown!r} has {text!r}, which is no host:port", fix="check the hosts")
        return f"{host}:{number}"
