"""The orders that an agent sends to its driver during one leadership.

Promise: each order is sent once, each new deadline once.
"""

from __future__ import annotations

from tenure.coordination.term import Term
from tenure.link.words import Finish, Lead, Link, Lost, Renewed, Stop, Word


class TermOrders:
    """Sends the orders of one leadership, `Lead` at once."""

    def __init__(self, link: Link, term: Term, *, cleans: bool) -> None:
        self._link = link
        self._term = term
        self._until_s = term.liveness.until_s
        self._sent: set[type[Word]] = set()
        link.send(Lead(term.to_json(), self._until_s, cleans))

    def send(self, *, stop: bool, finish: bool) -> bool:
        """Send new orders and deadlines. Return whether the driver must stop its queries now."""
        if self._term.lost:
            self._send_once(Lost(self._term.liveness.why or "it is over"))
            return True
        if self._term.liveness.until_s != self._until_s:
            self._until_s = self._term.liveness.until_s
            self._link.send(Renewed(self._until_s))
        if stop:
            self._send_once(Stop())
        elif finish:
            self._send_once(Finish())
        return stop

    def _send_once(self, order: Word) -> None:
        if type(order) not in self._sent:
            self._sent.add(type(order))
            self._link.send(order)
