"""What the files of a batch are staged for: the columns, ids and partitions of the table at that time.

Promise: Spark's files carry the table's field ids. In a table with lists or maps they carry none, since Spark writes
none into elements, and the table's name mapping gives the ids. The rows are evaluated once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tenure.sinks.iceberg.location import DataFolder
from tenure.sinks.iceberg.partitions import PartitionTerm, expressions, parts_of, sorted_by
from tenure.sinks.iceberg.schema import Json, has_repeated, numbered, without_docs

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_FIELD_ID: Final = "parquet.field.id"
_DERIVED: Final = "tenure_p"


@dataclass(frozen=True, slots=True)
class Layout:
    """Of a table, in one state of its metadata."""

    uuid: str
    location: DataFolder
    columns: Json
    """With ids."""
    spec_id: int
    parts: Sequence[PartitionTerm]
    order_id: int
    order: Json

    @property
    def has_ids(self) -> bool:
        """Whether files carry field ids."""
        return not has_repeated(self.columns)

    @property
    def sorted_by(self) -> Sequence[tuple[str, str]]:
        """The columns of the table's sort order, and a method of Spark's columns for each; empty: files are not
        sorted."""
        return sorted_by(self.order, self.columns) or ()

    def fits(self, now: Layout) -> bool:
        """Whether files that were staged for this layout can be committed in a table that is `now`. A sort order binds
        no file."""
        return (self.uuid, self.columns, self.spec_id) == (now.uuid, now.columns, now.spec_id)


def layout_of(metadata: Any, data: str, *, where: str) -> Layout:
    """`metadata`: pyiceberg's, of a table. `data`: the folder of its files. Raises UsageError: Spark cannot compute its
    partitions."""
    columns = without_docs(metadata.schema().model_dump(mode="json"))
    spec, order = metadata.spec().model_dump(mode="json"), metadata.sort_order().model_dump(mode="json")
    parts = tuple(parts_of(spec, columns, where=where))
    order = {"fields": order.get("fields", [])}
    return Layout(
        str(metadata.table_uuid),
        DataFolder(data.rstrip("/")),
        columns,
        metadata.default_spec_id,
        parts,
        metadata.default_sort_order_id,
        order,
    )


def rehearsed(columns: Json, parts: Sequence[PartitionTerm]) -> Layout:
    """The layout of a table that a member is about to create."""
    return Layout("", DataFolder(""), numbered(columns), 0, tuple(parts), 0, {"fields": []})


def prepared(rows: DataFrame, layout: Layout) -> tuple[DataFrame, list[str]]:
    """The rows as the layout has them, and the names of the columns by which Spark's tasks split them."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    if layout.has_ids:
        ids = {field["name"]: field for field in layout.columns["fields"]}
        # An alias for each column: the optimizer drops metadata that stands anywhere else.
        rows = rows.select(
            *(
                _typed(f.col(_quoted(field.name)), field.dataType).alias(field.name, metadata=field.metadata)
                for field in StructType.fromJson(_with_ids(rows.schema.jsonValue(), ids)).fields
            )
        )
    taken = {name.lower() for name in rows.columns}
    computed = expressions(layout.parts, layout.columns)
    names: list[str] = []
    for _ in computed:
        number = len(names)
        while f"{_DERIVED}{number}" in {*taken, *names}:
            number += 1
        names.append(f"{_DERIVED}{number}")
    if names:
        derived = [f.expr(text).alias(name) for text, name in zip(computed, names, strict=True)]
        rows = rows.select("*", *derived)
    if layout.sorted_by:
        order = [getattr(f.col(_quoted(name)), method)() for name, method in layout.sorted_by]
        rows = rows.sortWithinPartitions(*names, *order)
    return rows, names


def _typed(column: Column, kind: DataType) -> Column:
    """The column; a struct with the ids of its fields, which stand in its type."""
    from pyspark.sql.types import StructType

    return column.cast(kind) if isinstance(kind, StructType) else column


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def parquet_settings(layout: Layout) -> Mapping[str, str]:
    """Spark's settings for the files of a layout."""
    return {
        "spark.sql.parquet.fieldId.write.enabled": str(layout.has_ids).lower(),
        "spark.sql.parquet.writeLegacyFormat": "false",
    }


def _with_ids(struct: Json, ids: Mapping[str, Json]) -> Json:
    """Spark's JSON of a schema with the ids of these fields."""
    fields = []
    for field in struct["fields"]:
        known, kind = ids[field["name"]], field["type"]
        if isinstance(kind, dict) and kind["type"] == "struct":
            kind = _with_ids(kind, {one["name"]: one for one in known["type"]["fields"]})
        fields.append({"name": field["name"], "type": kind, "nullable": True, "metadata": {_FIELD_ID: known["id"]}})
    return {"type": "struct", "fields": fields}


def leaf_ids(columns: Json, order: Sequence[str]) -> list[int | None]:
    """The field id of each column of a Parquet file, in their order; None: of a part of a list or a map, which has no
    bounds. `order`: the names of the file's columns. A file names the field `b` of a struct `a` as it names a column
    `a.b`, so that a name finds neither for certain."""
    by_name = {field["name"]: field for field in columns["fields"]}
    return [leaf for name in order for leaf in _leaves(by_name[name]["type"], by_name[name]["id"])]


def _leaves(kind: Any, number: int | None) -> list[int | None]:
    match kind:
        case {"type": "struct", "fields": fields}:
            return [
                leaf for field in fields for leaf in _leaves(field["type"], None if number is None else field["id"])
            ]
        case {"type": "list", "element": element}:
            return _leaves(element, None)
        case {"type": "map", "key": key, "value": value}:
            return _leaves(key, None) + _leaves(value, None)
        case _:
            return [number]
