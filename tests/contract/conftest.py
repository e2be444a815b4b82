"""The contract's cases are rewritten by pytest, so that a failure says what differs."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tenure.testing.conformance", "tenure.testing.agreement")
