"""Every named case of the contract, on both embedded stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenure.testing.conformance import StoreConformance, StoreRig
from tenure.testing.rigs import MemoryRig, SqliteRig


class TestMemory(StoreConformance):
    @pytest.fixture
    def rig(self) -> Iterator[StoreRig]:
        rig = MemoryRig()
        yield rig
        rig.close()


class TestSqlite(StoreConformance):
    @pytest.fixture
    def rig(self) -> Iterator[StoreRig]:
        rig = SqliteRig()
        yield rig
        rig.close()
