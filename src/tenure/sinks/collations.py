"""Text that compares by a collation, which no table here keeps: a pure rule over the JSON of Spark's schemas.

Promise: a table takes text for text that compares byte by byte, so that two keys that are one key to Spark were two
rows. Such columns are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure.errors import UsageError


def refuse_collations(field: Mapping[str, Any], *, path: str) -> None:
    """Raise UsageError when a field of Spark's JSON has text with a collation. Spark calls its type `string`, and
    names the collation in the field's metadata."""
    for name in field.get("metadata", {}).get("__COLLATIONS", {}).values():
        raise UsageError(
            f"column {path} has the collation {name}, which the table does not keep",
            fix=f"select collate({path}, 'UTF8_BINARY') in its place",
        )
