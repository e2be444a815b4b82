"""How a MySQL is reached: the parameters of its URL, and of its environment.

Promise: the password comes from `MYSQL_PWD`, or from the `[client]` section of an option file, never from the URL. No
error shows a password. Nothing connects.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from tenure.errors import UsageError

FORM: Final = "write mysql://USER@HOST/DATABASE"
_SCHEMES: Final = ("mysql", "mariadb")
_ELSEWHERE: Final = "leave it out, and set MYSQL_PWD, or add ?option_file=PATH"
_TLS: Final = ("ssl_ca", "ssl_cert", "ssl_key")
_OPTIONS: Final = (*_TLS, "unix_socket", "option_file")


def parameters_of(url: str) -> dict[str, Any]:
    """The parameters for PyMySQL, without the password. Raises UsageError."""
    found, port = _split(url)
    if found.password is not None:
        raise UsageError("the URL of a MySQL sink has a password", fix=_ELSEWHERE)
    if found.scheme not in _SCHEMES or not found.path.strip("/") or "/" in found.path.strip("/"):
        raise UsageError("the URL of a MySQL sink is not one", fix=FORM)
    options = dict(parse_qsl(found.query, keep_blank_values=True))
    if unknown := [name for name in options if name not in _OPTIONS]:
        if "pass" in unknown[0].lower():
            raise UsageError("the URL of a MySQL sink has a password", fix=_ELSEWHERE)
        raise UsageError(
            f"the URL of a MySQL sink has an option {unknown[0]!r}, which is none", fix=f"use {', '.join(_OPTIONS)}"
        )
    given: dict[str, Any] = {
        "host": found.hostname or "localhost",
        "port": port or 3306,
        "database": unquote(found.path.strip("/")),
    }
    if found.username:
        given["user"] = unquote(found.username)
    if "ssl_ca" in options:  # a server whose name is another is another server
        given |= {"ssl_verify_cert": True, "ssl_verify_identity": True}
    return given | options


def with_password(given: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The parameters with the password, if there is one. Raises UsageError: the option file cannot be read."""
    found = {name: value for name, value in given.items() if name != "option_file"}
    if "MYSQL_PWD" in environment:
        found["password"] = environment["MYSQL_PWD"]
    if path := given.get("option_file"):
        found = {**found, **_client_section(str(path)), **({"user": found["user"]} if "user" in found else {})}
    return {"user": environment.get("USER", ""), **found}


def _client_section(path: str) -> dict[str, str]:
    read = configparser.RawConfigParser(allow_no_value=True, strict=False, inline_comment_prefixes=None)
    try:
        with open(path, encoding="utf-8") as file:
            read.read_file(file)
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        why = getattr(error, "strerror", None) or "it is no option file"
        raise UsageError(f"option_file {path!r} of a MySQL sink cannot be read: {why}", fix="name another") from error
    section = read["client"] if read.has_section("client") else {}
    found = {name: section.get(name) for name in ("user", "password")}
    return {name: value.strip("'\"") for name, value in found.items() if value}


def _split(url: str) -> tuple[SplitResult, int | None]:
    try:
        found = urlsplit(url)
        return found, found.port
    except ValueError as error:
        raise UsageError("the URL of a MySQL sink is not one", fix=FORM) from error
