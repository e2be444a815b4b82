"""The store contract as tests for every backend. Needs pytest and hypothesis.

A backend's tests make a `StoreRig`, subclass `StoreConformance` with a fixture `rig`, and run `contract_machine` and
`agreement_machine` on the rig. No backend skips a case: where its guarantees declare less, the case proves the weaker
promise.
"""

import pytest

from tenure.coordination.store import CoordinationStore
from tests.kit.conformance.agreement import MemoryRig, agreement_machine
from tests.kit.conformance.amending import AmendCases
from tests.kit.conformance.commits import CommitCases
from tests.kit.conformance.declared import DeclaredCases
from tests.kit.conformance.fixture import SCOPE, StoreRig, put_new
from tests.kit.conformance.listings import ListingCases
from tests.kit.conformance.machine import contract_machine
from tests.kit.conformance.sessions import SessionCases
from tests.kit.conformance.watches import WatchCases


class StoreConformance(CommitCases, ListingCases, SessionCases, AmendCases, WatchCases, DeclaredCases):
    """Every named case. A subclass has a fixture `rig`; `store` is a client of the rig."""

    @pytest.fixture
    def store(self, rig: StoreRig) -> CoordinationStore:
        return rig.client()


__all__ = ["SCOPE", "MemoryRig", "StoreConformance", "StoreRig", "agreement_machine", "contract_machine", "put_new"]
