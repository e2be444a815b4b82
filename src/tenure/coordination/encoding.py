"""Records are JSON with a format version, readable with etcdctl or sqlite3.

Promise: `decode` reads everything that `encode` wrote; anything else is an error that names the record.
"""

from __future__ import annotations

import base64
import json
import reprlib
import uuid
from collections.abc import Callable, Mapping, Set
from dataclasses import MISSING, asdict, fields
from enum import EnumType
from functools import cache, partial
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_args, get_origin, get_type_hints

from tenure.coordination.records import Record
from tenure.errors import CorruptRecord

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
Reader = Callable[[Any, str], Any]

FORMAT = 1
_NONE: Final[Mapping[str, Any]] = {}


def new_uid() -> str:
    """A unique name. Each write carries a new uid, so that its content proves who wrote it."""
    return uuid.uuid4().hex


def text_or_base64(value: bytes) -> Mapping[str, str]:
    """A value as a field of JSON: `text`, or `base64` where it is no text."""
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"base64": in_base64(value)}


def in_base64(value: bytes) -> str:
    """A value as text."""
    return base64.b64encode(value).decode()


def from_text_or_base64(fields: Mapping[str, Any]) -> bytes:
    """The value of either field. Raises ValueError."""
    match fields:
        case {"text": str(text)}:
            return text.encode()
        case {"base64": str(text)}:
            return base64.b64decode(text, validate=True)
    raise ValueError("it has no value")


def encode(fields: Mapping[str, Any]) -> bytes:
    """The bytes of a record with these fields."""
    return json.dumps({"v": FORMAT, **fields}, separators=(",", ":"), sort_keys=True).encode()


def decode(record: Record, *, fields: Mapping[str, Any], optional: Mapping[str, Any] = _NONE) -> dict[str, Any]:
    """The fields of a record. Each of `fields` must be there, and they and `optional` must have these types (`reader`).
    Raises CorruptRecord."""
    try:
        found = _loaded(record.value)
        if "v" not in found:
            raise ValueError("no format version")
        if found["v"] != FORMAT:
            raise CorruptRecord(
                f"record {record.key!r} has format {found['v']!r}, this version reads {FORMAT}",
                fix="run the version of tenure that wrote it, or a newer one",
            )
        for name, kind in {**optional, **fields}.items():
            value = found.get(name)
            if type(value) is not kind and (name in found or name in fields):
                found[name] = reader(kind)(value, name)
        return found
    except ValueError as error:
        raise CorruptRecord(f"record {record.key!r} does not decode: {error}") from error


def decode_as(kind: Callable[..., T], record: Record, **given: object) -> T:
    """A record as a dataclass. `given`: fields that it does not have. Its further fields are not read. Raises
    CorruptRecord."""
    kinds, needed = _fields_of(kind)
    found = decode(record, fields={name: kinds[name] for name in needed - given.keys()}, optional=kinds)
    return kind(**given, **{name: found[name] for name in kinds if name in found})


def encode_payload(data: DataclassInstance) -> bytes:
    """A dataclass as the payload of a handle."""
    return json.dumps({"format": FORMAT, **asdict(data)}, separators=(",", ":"), sort_keys=True).encode()


def decode_payload(kind: type[T], payload: bytes) -> T:
    """The dataclass that `encode_payload` wrote. Raises ValueError."""
    found = _loaded(payload)
    if found.pop("format", None) != FORMAT:
        raise ValueError("this version does not read its format")
    data: T = typed(kind, found, "")
    return data


def typed(kind: Any, value: Any, at: str) -> Any:
    """A value of JSON, called `at`, as `kind` (`reader`). Raises ValueError."""
    return value if type(value) is kind else reader(kind)(value, at)


@cache
def reader(kind: Any) -> Reader:
    """What reads a value of JSON, and its name, as `kind`: a type of JSON, an enum of texts, `X | None`,
    `tuple[X, ...]`, `Mapping[str, X]`, one of a set (`Annotated[X, SET]`), or a dataclass, which has no further fields.
    It raises ValueError."""
    origin, of = get_origin(kind), get_args(kind)
    if hasattr(kind, "__dataclass_fields__"):
        return _data_reader(kind, *_fields_of(kind))
    inner = kind if origin is None else of[origin is Mapping]
    read: Reader = partial(typed, kind) if inner is kind else reader(inner)
    among = of[1] if origin is Annotated else list(kind) if isinstance(kind, EnumType) else ()

    def value_of(value: Any, at: str) -> Any:
        if type(value) is kind or (origin is Annotated and type(value) is inner and value in among):
            return value
        if origin is None and value in among:
            return kind(value)
        if origin is UnionType:
            return None if value is None else read(value, at)
        if origin is tuple and type(value) is list:
            return tuple([one if type(one) is inner else read(one, f"{at}.{n}") for n, one in enumerate(value)])
        if origin is Mapping and type(value) is dict:
            return {key: one if type(one) is inner else read(one, f"{at}.{key}") for key, one in value.items()}
        name = ", ".join(sorted(among)) or (origin or kind).__name__
        raise ValueError(f"field {at!r} is not {name}: {reprlib.repr(value)}")

    return value_of


def _data_reader(kind: Any, kinds: Mapping[str, Any], needed: Set[str]) -> Reader:
    readers = {name: reader(one) for name, one in kinds.items()}

    def data_of(value: Any, at: str) -> Any:
        found, under = typed(dict, value, at), f"{at}." * bool(at)
        for name in sorted(found.keys() ^ kinds.keys()) if found.keys() != kinds.keys() else ():
            if name in found or name in needed:
                raise ValueError(f"field {under + name!r} is {'not known' if name in found else 'missing'}")
        return kind(**{k: v if type(v) is kinds[k] else readers[k](v, under + k) for k, v in found.items()})

    return data_of


@cache
def _fields_of(kind: Any) -> tuple[Mapping[str, Any], Set[str]]:
    """The types of the fields of a dataclass, and the fields without a default."""
    needed = {one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING}
    return get_type_hints(kind, include_extras=True), needed


def _loaded(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text.decode())
    except RecursionError as error:  # thousands of brackets
        raise ValueError(str(error)) from error
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    return found
