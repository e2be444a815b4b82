"""A service can name each error that it may catch: of the errors that `tenure.lead` raises, only TermLost was a name of
the package, so `except tenure.StoreUnavailable` ended the service with AttributeError while its store was away."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import tenure
from tests.house.test_documents import all_errors, rows

CALLS: dict[str, list[Callable[..., object]]] = {
    "`with tenure.lead(...)`, on entry": [tenure.lead],
    "`leadership.check()`, `batch.check()`": [tenure.Leadership.check, tenure.Batch.check],
    "`@tenure.pipeline`, `job.stream(...)`, the constructors of sinks": [tenure.pipeline, tenure.Job.stream],
    "`leadership.commit(...)`, `record(...)`, `records()`": [
        getattr(tenure.Leadership, name) for name in ("commit", "record", "records")
    ],
    "`with tenure.read(...)`": [tenure.read],
    "`reader.record(...)`, `records()`": [tenure.Reader.record, tenure.Reader.records],
    "`leadership.handles(...)`, `reader.handles(...)`": [tenure.Leadership.handles, tenure.Reader.handles],
    "`handles.add`, `replace`": [tenure.WritableHandles.add, tenure.WritableHandles.replace],
    "`handles.remove`, `remove_all`": [tenure.WritableHandles.remove, tenure.WritableHandles.remove_all],
    "`handles.get`, `get_all`, `list`": [
        getattr(kind, name)
        for kind in (tenure.ReadableHandles, tenure.WritableHandles)
        for name in ("get", "get_all", "list")
    ],
    "`with handles.locked(...)`": [tenure.ReadableHandles.locked],
}
"""Call, as the page names it -> the functions whose docstrings say what they raise."""


def test_a_store_that_is_away_is_caught_by_name(tmp_path: Path) -> None:
    (tmp_path / "no-folder").touch()
    url = f"sqlite://{tmp_path}/no-folder/ha.db"
    with (
        pytest.raises(tenure.StoreUnavailable, match="no-folder"),
        tenure.lead("report", store=url, timeout=timedelta(0)),
    ):
        pass


@pytest.mark.parametrize("call", CALLS)
def test_what_a_docstring_names_is_exported_and_on_the_page(call: str) -> None:
    family = {kind.__name__: kind for kind in all_errors()}
    (row,) = [cells for cells in rows("docs/errors.md", heading="Which call raises which") if cells[0] == call]
    on_page = tuple(family[name] for name in re.findall(r"`(\w+)`", row[1]) if name in family)
    for function in CALLS[call]:
        named = [word for word in re.findall(r"\w+", function.__doc__ or "") if word in family]
        assert named
        for name in named:
            assert getattr(tenure, name) is family[name]
            assert issubclass(family[name], on_page), f"{function.__qualname__} raises {name}"


def test_the_page_has_a_row_for_each_call() -> None:
    named = [cells[0] for cells in rows("docs/errors.md", heading="Which call raises which")]
    assert [call for call in named if "at the end" not in call] == list(CALLS)
