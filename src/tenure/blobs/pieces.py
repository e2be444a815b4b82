"""What a listing did not get to, for somebody else to go on with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rest:
    """A folder that the budget did not reach; `after`: all paths up to this one were listed, empty: none. `until`: only
    up to this path, with it, empty: to the end. `among`: only what is below these folders directly in it (names, in the
    server's order), empty: all."""

    folder: str
    after: str = ""
    until: str = ""
    among: tuple[str, ...] = ()
