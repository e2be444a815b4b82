"""Puts a stand-in into the place of a function of PySpark's for as long as a block lasts.

Promise: the function of PySpark is back after the block, also where the block raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def replaced(owner: object, name: str, by: object) -> Iterator[None]:
    """`owner` (a class or a module) has `by` under this name in the block."""
    before = vars(owner)[name]
    setattr(owner, name, by)
    try:
        yield
    finally:
        setattr(owner, name, before)
