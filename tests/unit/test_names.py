"""The public names: all are there, and a pipeline file pays for none that it does not use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tenure
import tenure.sinks


@pytest.mark.parametrize("name", tenure.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(tenure, name).__name__ == name


@pytest.mark.parametrize("name", tenure.sinks.__all__)
def test_a_sink_is_there(name: str) -> None:
    assert getattr(tenure.sinks, name).__name__ == name


def test_a_name_that_is_none() -> None:
    with pytest.raises(AttributeError, match="module 'tenure' has no attribute 'Foreach'"):
        tenure.Foreach  # noqa: B018 - that it is refused is the test


def test_a_pipeline_file_does_not_load_stores_or_spark() -> None:
    look = "import sys, tenure; print({'pyspark', 'fsspec', 'tenure.handles.store'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True)
    assert told.stdout == "set()\n"
