"""Names of objects and of their entries: reversible, and readable in kubectl.

Promise: pure. Two scopes never share a ConfigMap, and two keys never share an entry. An entry's name decodes to its key.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from tenure.coordination.records import Key, Scope

_PLAIN: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z")
_PLAIN_MOST: Final = 128
_ENTRY_MOST: Final = 253
_ESCAPES: Final = {"/": ".", ".": "_.", "_": "__", "=": "_-"}
_UNESCAPES: Final = {".": ".", "_": "_", "-": "="}
_LONG: Final = "_0"
"""Begins the entries of keys that are too long for a name: no escape has this form, and the record says its key."""

ABOUT: Final = "_tenure"
"""The entry about the scope itself: no key has this name, because an underscore begins an escape."""


def object_name(store: str, scope: Scope) -> str:
    """The name of the ConfigMap of a scope. A scope that is no name of Kubernetes has its checksum in its place."""
    if _PLAIN.match(scope) and len(scope) <= _PLAIN_MOST:
        return f"{store}.{scope}"
    letters = re.sub(r"[^a-z0-9]+", "-", scope.lower()).strip("-")[:40]
    return f"{store}.{letters}.{hashlib.sha256(scope.encode()).hexdigest()[:16]}".replace("..", ".")


def entry_name(key: Key) -> str:
    """The name of the entry of a key: `/` is written `.`; `.`, `_` and `=` are written `_.`, `__` and `_-`."""
    name = "".join(_ESCAPES.get(letter, letter) for letter in key)
    return name if len(name) <= _ENTRY_MOST else _LONG + hashlib.sha256(key.encode()).hexdigest()


def is_long(name: str) -> bool:
    """Whether the entry's record says its key."""
    return name.startswith(_LONG)


def key_of(name: str) -> Key | None:
    """The key of an entry with a plain name; None: no key has this name."""
    letters: list[str] = []
    rest = iter(name)
    for letter in rest:
        if letter == "_":
            meant = _UNESCAPES.get(next(rest, ""))
            if meant is None:
                return None
            letters.append(meant)
        else:
            letters.append("/" if letter == "." else letter)
    return Key.found("".join(letters))
