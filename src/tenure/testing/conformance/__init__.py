"""The store contract as tests for every backend. Needs pytest and hypothesis.

A backend's tests make a `StoreRig`, subclass `StoreConformance` with a fixture `rig`, and run `contract_machine` and
`agreement_machine` on the rig. No backend skips a case: where its guarantees declare less, the case proves the weaker
promise.
"""

import pytest

from tenure.coordination.store import CoordinationStore
from tenure.testing.conformance.agreement import MemoryRig, agreement_machine
from tenure.testing.conformance.amending import AmendCases
from tenure.testing.conformance.commits import CommitCases
from tenure.testing.conformance.declared import DeclaredCases
from tenure.testing.conformance.fixture import SCOPE, StoreRig, put_new
from tenure.testing.conformance.listings import ListingCases
from tenure.testing.conformance.machine import contract_machine
from tenure.testing.conformance.sessions import SessionCases
from tenure.testing.conformance.watches import WatchCases


class StoreConformance(CommitCases, ListingCases, SessionCases, AmendCases, WatchCases, DeclaredCases):
    """Every named case. A subclass has a fixture `rig`; `store` is a client of the rig."""

    @pytest.fixture
    def store(self, rig: StoreRig) -> CoordinationStore:
        return rig.client()


__all__ = ["SCOPE", "MemoryRig", "StoreConformance", "StoreRig", "agreement_machine", "contract_machine", "put_new"]
