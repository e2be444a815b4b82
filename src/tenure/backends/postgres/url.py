"""The place that a store URL names: `postgresql://user@host,host/database?schema=tenure`, and options of libpq.

Promise: a part that cannot be used is a UsageError that names the part, and no password. Nothing connects.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, quote, urlencode

from tenure.backends.shared.server_url import check_password
from tenure.durations import parse_duration
from tenure.errors import UsageError
from tenure.libpq import ELSEWHERE, parameters_of

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}\Z")
"""A name that needs no quotes, and is short enough for the name of a channel."""

_OWN: Final = ("schema", "connect_timeout", "request_timeout")
_AFTER_A_FAILURE: Final = ("host", "hostaddr", "port")
"""Lists with a value for each server."""


@dataclass(frozen=True, slots=True)
class PostgresPlace:
    """A schema of a database. `servers`: the parameters of libpq for each server that the URL names, in its order, with
    the password if the URL has one. `shown`: the place for people."""

    servers: tuple[Mapping[str, Any], ...] = field(repr=False)
    shown: str
    schema: str = "tenure"
    connect_timeout: timedelta = timedelta(seconds=3)
    request_timeout: timedelta = timedelta(seconds=5)

    @property
    def identity(self) -> Hashable:
        """The same for each client of the place in this process."""
        servers = tuple((one.get("host"), one.get("port"), one.get("service")) for one in self.servers)
        return servers, self.shown, self.schema

    @property
    def channel(self) -> str:
        """The channel on which changes are announced."""
        return f"tenure_{self.schema}"


def place_of(url: SplitResult) -> PostgresPlace:
    """Raises UsageError."""
    check_password(url)
    options = parse_qsl(url.query, keep_blank_values=True)
    own = {name: value for name, value in options if name in _OWN}
    rest = [(name, value) for name, value in options if name not in _OWN]
    for name, _ in rest:
        if name in ("password", "sslpassword"):
            raise UsageError(f"option {name} of a store URL would show a password", fix=ELSEWHERE)
    query = f"?{urlencode(rest, quote_via=quote)}" if rest else ""
    given = parameters_of(f"postgresql://{url.netloc}{url.path}{query}", "a store in PostgreSQL")
    schema = own.get("schema", "tenure")
    if not _SCHEMA.match(schema):
        raise UsageError(
            f"option schema={schema!r} of the store URL is no name of a schema",
            fix="use at most 48 lower-case letters, digits and '_', no digit first",
        )
    if not given.get("dbname") and not given.get("service"):
        raise UsageError("the store URL of PostgreSQL names no database", fix="write postgresql://user@host/database")
    servers = _one_by_one(given)
    return PostgresPlace(
        servers,
        f"{','.join(str(one.get('host') or one.get('hostaddr') or '') for one in servers)}/{given.get('dbname', '')}",
        schema=schema,
        connect_timeout=_duration(own, "connect_timeout", timedelta(seconds=3)),
        request_timeout=_duration(own, "request_timeout", timedelta(seconds=5)),
    )


def _one_by_one(given: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The parameters of each server. Raises UsageError."""
    lists = {name: str(given[name]).split(",") for name in _AFTER_A_FAILURE if given.get(name)}
    count = max((len(values) for values in lists.values()), default=1)
    for name, values in lists.items():
        if len(values) not in (1, count) or (name != "port" and len(values) != count):
            raise UsageError(f"the store URL has {count} servers, and {len(values)} of {name}", fix="give one for each")
    servers = []
    for number in range(count):
        of_this = {name: values[number if len(values) > 1 else 0] for name, values in lists.items()}
        servers.append({**given, **of_this})
    return tuple(servers)


def _duration(own: Mapping[str, str], option: str, default: timedelta) -> timedelta:
    if option not in own:
        return default
    try:
        return parse_duration(own[option])
    except ValueError as error:
        raise UsageError(f"option {option}={own[option]!r} of the store URL is no time: {error}") from error
