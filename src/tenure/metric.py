"""A figure for Prometheus that an event carries. Data only: `agent/metrics.py` counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """How an event changes a figure."""

    COUNTER = "counter"
    """The event adds to it. It is there with 0 before the first event."""
    GAUGE = "gauge"
    """The event replaces it."""
    GROWS = "grows"
    """A gauge that the event adds to."""
    HISTOGRAM = "histogram"
    """The event adds an observation, in seconds."""


@dataclass(frozen=True)
class Metric:
    """A figure for Prometheus that an event changes."""

    name: str
    """Without `tenure_`, and without the `_total` of a counter."""
    what: str
    value: str | int = 1
    """A number, or the field that has it; None there: the figure does not change."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Label -> the field that has it."""
    kind: Kind = Kind.COUNTER
    of_term: bool = False
    """The figure goes at the end of the term: it says nothing of a member that does not lead."""
