"""What tests of S3 and of Kubernetes get: a real server behind a gate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenure.backends.kubernetes import KubernetesStore
from tests.kit.servers import KubernetesServer, SeaweedFs
from tests.s3 import HANGS_S, Gate, reached
from tests.support.api_gate import ApiGate
from tests.support.kubernetes_scene import Hands
from tests.support.store_fixtures import KubernetesRig


@pytest.fixture
def gate(seaweedfs: SeaweedFs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """s3fs goes through it within the test."""
    with Gate(seaweedfs) as made, reached(made.url, monkeypatch, patience_s=HANGS_S):
        yield made


@pytest.fixture
def kube_rig(kubernetes: KubernetesServer) -> Iterator[KubernetesRig]:
    """A namespace of its own, and clients with the rights of members."""
    made = KubernetesRig(kubernetes)
    yield made
    made.close()


@pytest.fixture
def api_gate(kubernetes: KubernetesServer) -> Iterator[ApiGate]:
    with ApiGate(kubernetes) as made:
        yield made


@pytest.fixture
def gated(kube_rig: KubernetesRig, api_gate: ApiGate) -> KubernetesStore:
    """A client of the rig's place, through the gate."""
    return kube_rig.through(api_gate)


@pytest.fixture
def hands(kube_rig: KubernetesRig) -> Hands:
    return Hands(kube_rig)
