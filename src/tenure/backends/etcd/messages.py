"""etcd's messages and services, which `hatch_build.py` makes from `etcd.proto`. They have no types."""

from __future__ import annotations

from importlib import import_module
from typing import Any

pb: Any = import_module("tenure.backends.etcd.etcd_pb2")
"""The messages."""

stubs: Any = import_module("tenure.backends.etcd.etcd_pb2_grpc")
"""The services."""
