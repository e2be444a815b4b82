"""How many examples a property test tries, and which: fixed ones in the gate, many more at random in a hunt.

Promise: in the gate (the default) each run tries the same examples on every machine, so what is red is red for
everybody. `--hypothesis-profile=hunt` (`make test-long`) tries `HUNT` times as many, new ones each time; a failure
prints the line that reproduces it. A test with a count of its own says `examples(count)`.
"""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, settings

HUNT: Final = 20
"""How many times as many examples a hunt tries."""

_USUAL: Final = 100


def register() -> None:
    """Make both profiles known, and load that of the gate; the flag of the command line is heeded after this."""
    # Machines differ in speed, so no example has a deadline, and none is too slow.
    patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
    settings.register_profile("gate", patient, derandomize=True, max_examples=_USUAL)
    settings.register_profile("hunt", patient, derandomize=False, max_examples=HUNT * _USUAL, print_blob=True)
    settings.load_profile("gate")


def examples(count: int) -> int:
    """`count` in the gate, and as many times more in a hunt."""
    return count * settings().max_examples // _USUAL
