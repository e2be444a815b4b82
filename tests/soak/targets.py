"""Targets that are away for a while: a function that raises, a database that admits nobody, a broker that is killed.

Promise: the seed decides who is away after whom, and for how long. A target that is away refuses what it is asked, and
sometimes hides that it has taken a batch. All targets answer after `Outages.end`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from tenure.clock import Clock
from tests.kit.servers.process import Servers
from tests.soak.plan import SINK_AWAY, Plan

_AWAY_S: Final = (0.5, 6.0)
_THERE_S: Final = (3.0, 15.0)
_ONE_OF: Final = 3
"""One outage of so many is of all targets at once."""


class Away(Protocol):
    """What can be away."""

    def leave(self) -> None:
        """Be away from now on."""
        ...

    def come_back(self) -> None:
        """Answer again."""
        ...


class Target:
    """The target of one function, below its output."""

    def __init__(self, output: Path) -> None:
        self._away = output / "away"

    def ask(self) -> None:
        """Raises ConnectionRefusedError: it is away."""
        if self._away.exists():
            raise ConnectionRefusedError(f"the target {self._away.parent.name} is away")

    def leave(self) -> None:
        """Be away from now on."""
        self._away.parent.mkdir(parents=True, exist_ok=True)
        self._away.touch()

    def come_back(self) -> None:
        """Answer again."""
        self._away.unlink(missing_ok=True)


class ServerAway:
    """Servers of one process, which are killed, hang, and are stopped in turn."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._times = 0

    def leave(self) -> None:
        """Be away from now on."""
        node = self._servers.nodes[0]
        (node.kill, node.pause, node.stop)[self._times % 3]()
        self._times += 1

    def come_back(self) -> None:
        """Go on, or start, and wait until it answers; nothing when it is there."""
        self._servers.nodes[0].wake()
        self._servers.start()


class Outages:
    """The outages of a run, one after the other. `act` is called again and again, by one thread at a time."""

    def __init__(
        self, folder: Path, plan: Plan, *, places: Mapping[str, Away], clock: Clock, log: Callable[[str], None]
    ) -> None:
        """`places`: of the sinks whose targets are away together."""
        chosen = [query for query in plan.queries if query.habit == SINK_AWAY]
        alone = [Target(folder / "output" / query.name) for query in chosen if query.sink not in places]
        together = dict.fromkeys(query.sink for query in chosen if query.sink in places)
        self._targets: list[Away] = [*alone, *(places[sink] for sink in together)]
        self._chance = random.Random(plan.seed)
        self._clock = clock
        self._log = log
        self._away = False
        self._turn_s: float | None = None  # None: not drawn yet
        self.count = 0
        """How many outages there were."""

    def act(self) -> None:
        """Begin an outage, or end it, if it is time to."""
        if not self._targets:
            return
        now_s = self._clock.monotonic_s()
        if self._turn_s is None:
            self._turn_s = now_s + self._chance.uniform(*_THERE_S)
        elif now_s >= self._turn_s:
            if self._away:
                self.end()
            else:
                self._begin(now_s)

    def _begin(self, now_s: float) -> None:
        away_s = self._chance.uniform(*_AWAY_S)
        everybody = self._chance.randrange(_ONE_OF) == 0
        drawn = self._chance.randrange(len(self._targets))
        targets = self._targets if everybody else self._targets[drawn : drawn + 1]
        for target in targets:
            target.leave()
        self._away, self._turn_s = True, now_s + away_s
        self.count += 1
        self._log(f"outage {self.count}: {'all targets' if everybody else 'one target'}, {away_s:.1f} s")

    def end(self) -> None:
        """Let every target answer."""
        if self._away:
            for target in self._targets:
                target.come_back()
            self._log(f"outage {self.count} is over")
        self._away, self._turn_s = False, None
