"""Random histories: each store against the contract's model, and the two against each other."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tenure.testing.agreement import agreement_machine
from tenure.testing.conformance import contract_machine
from tenure.testing.rigs import MemoryRig, SqliteRig

_BOUNDED = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,  # a step that waits for the disk is not a slow test
    suppress_health_check=[HealthCheck.too_slow],  # as above
)

TestMemoryKeepsTheContract = contract_machine(MemoryRig).TestCase
TestMemoryKeepsTheContract.settings = settings(_BOUNDED, max_examples=150)

TestSqliteKeepsTheContract = contract_machine(SqliteRig).TestCase
TestSqliteKeepsTheContract.settings = _BOUNDED

TestSqliteAgreesWithMemory = agreement_machine(MemoryRig, SqliteRig).TestCase
TestSqliteAgreesWithMemory.settings = _BOUNDED
