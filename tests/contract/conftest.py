"""The two embedded stores as rigs; each backend's tests add their own."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tenure.testing.conformance", "tenure.testing.agreement")
