"""Iceberg's `bucket` as an expression of Spark: Murmur3 of 32 bits, with the seed 0 (the spec of Iceberg, appendix B).

Promise: the bucket is that of every other writer of the table. Spark's own `hash` has another seed, and hashes the end
of a text in another way. A `long` holds the 32 bits, and each factor is signed, so that no product leaves its 64 bits.
"""

from __future__ import annotations

from typing import Final

TAKES: Final = frozenset({"string", "int", "long", "date", "timestamp", "timestamptz"})
"""The types of columns that are taken here."""

_BITS: Final = "4294967295L"
_C1, _C2 = -862048943, 461845907  # 0xcc9e2d51, 0x1b873593
_LAST: Final = (-2048144789, -1028477387)  # 0x85ebca6b, 0xc2b2ae35


def bucket(name: str, kind: str, count: int) -> str:
    """The bucket of a column, from 0 to below `count`; null of null. `name`: quoted; `kind`: one of `TAKES`."""
    if kind == "string":
        return _modulo(_of_text(name), count)
    number = f"cast({name} as bigint)"
    if kind == "date":
        number = f"cast(unix_date({name}) as bigint)"
    elif kind == "timestamptz":
        number = f"unix_micros({name})"
    elif kind == "timestamp":  # no time zone has a part in it
        minutes = f"(unix_date(cast({name} as date)) * 24L + hour({name})) * 60 + minute({name})"
        number = f"(({minutes}) * 60000000L + cast(extract(second from {name}) * 1000000 as bigint))"
    blocks = f"array({number} & {_BITS}, shiftrightunsigned({number}, 32))"
    return _modulo(f"aggregate({blocks}, 0L, (h, k) -> {_step('h', 'k')}, h -> {_mixed('h ^ 8L')})", count)


def _of_text(name: str) -> str:
    """The bytes as digits, two for each: four bytes are a block, the first byte the lowest, and up to three follow."""
    text = f"struct(hex(cast({name} as binary)) as d, octet_length({name}) as n)"
    blocks = "filter(sequence(0L, t.n div 4), i -> i < t.n div 4)"
    block = _number("t.d", [f"8 * i + {place}" for place in (7, 5, 3, 1)])
    rest = _number("t.d", [f"8 * (t.n div 4) + {place}" for place in (5, 3, 1)])
    hashed = f"aggregate({blocks}, 0L, (h, i) -> {_step('h', block)}) ^ {_spread(rest)} ^ t.n"
    return f"transform(transform(array({text}), t -> {hashed}), h -> {_mixed('h')})[0]"


def _number(digits: str, places: list[str]) -> str:
    """The number of the bytes at these places of the digits, the highest first; 0 where there is none."""
    pairs = ", ".join(f"substring({digits}, cast({place} as int), 2)" for place in places)
    return f"cast(conv(concat('0', {pairs}), 16, 10) as bigint)"


def _step(hashed: str, block: str) -> str:
    return f"(({_turned(f'({hashed} ^ {_spread(block)})', 13)}) * 5 + 3864292196L) & {_BITS}"


def _spread(block: str) -> str:
    return _times(_turned(_times(block, _C1), 15), _C2)


def _mixed(hashed: str) -> str:
    first = f"({hashed}) ^ shiftrightunsigned({hashed}, 16)"
    product = _times(f"({first})", _LAST[0])
    second = _times(f"({product} ^ shiftrightunsigned({product}, 13))", _LAST[1])
    return f"({second} ^ shiftrightunsigned({second}, 16))"


def _times(value: str, factor: int) -> str:
    return f"(({value} * {factor}L) & {_BITS})"


def _turned(value: str, by: int) -> str:
    return f"((shiftleft({value}, {by}) | shiftrightunsigned({value}, {32 - by})) & {_BITS})"


def _modulo(hashed: str, count: int) -> str:
    return f"cast(({hashed} & 2147483647L) % {count}L as int)"
