"""How far a query is behind, from the sources of Spark's progress."""

from __future__ import annotations

import pytest

from tenure.inputs.planned_inputs import offsets_behind

A, LATER = '{"a":{"0":5,"1":7}}', '{"a":{"0":9,"1":7,"2":3}}'


@pytest.mark.parametrize(
    ("sources", "behind"),
    [
        ([], None),
        ([('{"logOffset":3}', None)], None),
        ([(A, A)], 0),
        ([(A, LATER)], 7),
        ([(A, LATER), ('{"logOffset":3}', None), (A, LATER)], 14),
        ([(A, "null")], None),
        ([(A, LATER), (A, None)], None),
    ],
)
def test_offsets_behind(sources: list[tuple[str | None, str | None]], behind: int | None) -> None:
    assert offsets_behind(progress(sources, "KafkaV2[Subscribe[a]]")) == behind


def test_a_source_of_another_kind_is_not_counted_whatever_its_offsets_look_like() -> None:
    assert offsets_behind(progress([(A, LATER)], "PythonMicroBatchStream@1")) is None


def progress(sources: list[tuple[str | None, str | None]], description: str) -> dict[str, object]:
    return {
        "sources": [{"description": description, "endOffset": end, "latestOffset": latest} for end, latest in sources]
    }
