"""The actions of a page: the requests of operators, by the same way as the commands.

Promise: each action is one request of `operate/orders.py`, with `ui:NAME` and the reason in the history. A failover
needs the scope's name, typed. A refusal is one line. Not promised: that an order is carried out when this returns; the
page shows the new leader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tenure.clock import Clock
from tenure.coordination.candidates import AskedBy
from tenure.coordination.records import Scope
from tenure.errors import UsageError
from tenure.operate.orders import Orders
from tenure.ui.store_client import StoreClient

ACTIONS: Final = ("switchover", "failover", "pause", "resume", "restart")

REASON_MOST: Final = 300


@dataclass(frozen=True, slots=True)
class Action:
    """What an operator asks for. `member`: the next leader, or the member to restart; empty: none is named. `typed`:
    what the operator typed to confirm."""

    kind: str
    scope: Scope
    member: str = ""
    reason: str = ""
    typed: str = ""


def check(action: Action) -> None:
    """Raises UsageError: the action is not whole."""
    if action.kind not in ACTIONS:
        raise UsageError(f"{action.kind!r} is no action", fix=f"one of {', '.join(ACTIONS)}")
    if action.kind == "failover" and action.typed != action.scope:
        raise UsageError("the name of the scope is not typed as it is", fix=f"type {action.scope} to confirm")
    if action.kind == "restart" and not action.member:
        raise UsageError("a restart names a member", fix="choose one")


def act(client: StoreClient, action: Action, *, by: str, clock: Clock) -> str:
    """Do it, and return a line for the operator. `by`: the operator's name.

    Raises UsageError, StoreUnavailable: nothing was asked for; OutcomeUnknown.
    """
    check(action)
    asked = AskedBy(f"ui:{by}", " ".join(action.reason.split())[:REASON_MOST])
    with client.use() as store:
        orders = Orders(store, action.scope, clock=clock, asked=asked)
        match action.kind:
            case "switchover":
                requested = orders.switchover(to=action.member or None)
                return f"{requested.leader} was asked to finish its batch and hand over"
            case "failover":
                requested = orders.failover(to=action.member or None)
                return f"the term {requested.epoch} of {requested.leader} was ended" if requested.leader else "asked"
            case "pause":
                return "the scope is paused" if orders.pause() else "the scope was paused already"
            case "resume":
                return "the scope is not paused any more" if orders.resume() else "the scope was not paused"
            case _:
                orders.restart(action.member)
                return f"{action.member} was asked to replace its driver"
