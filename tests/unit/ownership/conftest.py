"""The laboratory, on every store."""

from __future__ import annotations

from tests.faults.labs import lab

__all__ = ["lab"]
