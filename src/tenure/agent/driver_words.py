"""What an agent tells its driver in the course of one leadership.

Promise: each thing is told once, and each new deadline.
"""

from __future__ import annotations

from tenure.coordination.term import Term
from tenure.link.words import Finish, Lead, Link, Lost, Renewed, Stop, Word


class Said:
    """What a driver was told of one leadership: each thing once, each new deadline."""

    def __init__(self, link: Link, term: Term, *, cleans: bool) -> None:
        self._link = link
        self._term = term
        self._until_s = term.liveness.until_s
        self._words: set[type[Word]] = set()
        link.send(Lead(term.to_json(), self._until_s, cleans))

    def say(self, *, stop: bool, finish: bool) -> bool:
        """Tell what is new; return whether the driver must stop its queries now."""
        if self._term.lost:
            self._once(Lost(self._term.liveness.why or "it is over"))
            return True
        if self._term.liveness.until_s != self._until_s:
            self._until_s = self._term.liveness.until_s
            self._link.send(Renewed(self._until_s))
        if stop:
            self._once(Stop())
        elif finish:
            self._once(Finish())
        return stop

    def _once(self, word: Word) -> None:
        if type(word) not in self._words:
            self._words.add(type(word))
            self._link.send(word)
