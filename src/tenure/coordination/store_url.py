"""The text of a store's URL: its parts, and the password of its user.

Promise: every text has parts. Nothing connects, and nothing is checked.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, quote

_URL: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<netloc>[^/?#]*))?"
    r"(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
"""The expression of RFC 3986, appendix B. `urlsplit` reads a single host, and refuses brackets in further hosts."""


def split_url(url: str) -> SplitResult:
    """The parts of any text as a URL has them; their meaning is not checked. Blanks and line ends around the text, as
    files and secrets have them, are removed."""
    found = _URL.fullmatch(url.strip())
    assert found is not None, "every text matches"
    scheme, netloc, path, query, fragment = (part or "" for part in found.groups())
    return SplitResult(scheme.lower(), netloc, path, query, fragment)


SET_A_PASSWORD: Final = "set TENURE_STORE_PASSWORD or TENURE_STORE_PASSWORD_FILE"
NAME_A_USER: Final = f"write user@ before the hosts, and {SET_A_PASSWORD}"


def with_password(url: str, password: str) -> str:
    """The URL with this password for its user; as it is, where it names no user or has a password."""
    parts = split_url(url)
    user, at, hosts = parts.netloc.rpartition("@")
    if not user or ":" in user:
        return url
    return parts._replace(netloc=f"{user}:{quote(password, safe='')}{at}{hosts}").geturl()
