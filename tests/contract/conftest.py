"""What tests of S3 get: a real server behind a gate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenure.testing.servers import SeaweedFs
from tests.s3 import Gate, reached


@pytest.fixture
def gate(seaweedfs: SeaweedFs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """s3fs goes through it within the test."""
    with Gate(seaweedfs) as made, reached(made.url, monkeypatch):
        yield made
