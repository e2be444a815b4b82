"""What a listing did not get to, for somebody else to go on with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rest:
    """A folder that the budget did not reach; `after`: all paths up to this one were listed, empty: none. `until`: only
    up to this path, with it, empty: to the end."""

    folder: str
    after: str = ""
    until: str = ""
