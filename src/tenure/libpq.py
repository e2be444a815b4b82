"""How a PostgreSQL is reached: the parameters of its URL, and the words of its errors.

Promise: the environment (`PGPASSWORD`), a passfile and a service add what the URL does not say, as for every client of
libpq. No error shows a password. Nothing connects.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tenure.errors import UsageError

_FORM: Final = "write postgresql://USER@HOST/DATABASE"
ELSEWHERE: Final = "leave it out, and set PGPASSWORD, PGPASSFILE or a service"
"""How a password is given."""


def parameters_of(url: str, what: str) -> dict[str, Any]:
    """The parameters of a URL, with its password if it has one. `what`: whose URL. Raises UsageError."""
    try:
        return dict(conninfo_to_dict(url))
    except psycopg.Error as error:
        scheme, _, rest = url.partition("://")
        cites_no_password = scheme.startswith("postgres") and ":" not in rest.rpartition("@")[0]
        words = one_line(error) if cites_no_password else "it cannot be read"
        raise UsageError(f"the URL of {what} is not one: {words}", fix=_FORM) from error


def one_line(error: BaseException) -> str:
    """The words of an error of psycopg."""
    return " ".join(str(error).split()) or type(error).__name__
