"""One member: holds a session, contends, and lets its driver lead under the term that it won.

Promise: the driver gets a term only after the store granted it. A term is resigned only after the driver has stopped
or is dead. A member that lost its term, its driver or the store, or whose queries failed by a cause that may pass
(`failures`), stands by again under a new session. (I7): the result of a pipeline is durable before anything of the
pipeline is removed, and before the term is given up. A
pipeline that has ended for good never runs again. A leader that was asked to stop contends no more. Not promised: that
a first start succeeds; its error is raised.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from tenure.agent.condition import SILENT_S, Condition, Outlook
from tenure.agent.failures import Failures, Limits, Noted, pause_line
from tenure.agent.past_members import PastMembers
from tenure.agent.scope_watch import NewerSpark, Requests, Restarts, awaited_in
from tenure.agent.telling import Openings, Telling, last_write
from tenure.agent.warden import Warden
from tenure.checkpoints.store import newest_batches
from tenure.coordination.candidates import MEMBERS, NOT_BEHIND, SILENT, Identity, Lag, State
from tenure.coordination.election import Election, Flag, When
from tenure.coordination.failing import FAILED, Failure
from tenure.coordination.joining import join_after_itself
from tenure.coordination.reading import LONG, read_again
from tenure.coordination.records import Record
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import LEADER, Term
from tenure.coordination.terms import End
from tenure.errors import (
    AccessDenied,
    BatchMayBeShort,
    CleanupIncomplete,
    DriverDied,
    OutcomeUnknown,
    PipelineFileError,
    QueryFailed,
    SessionEnded,
    SourceUnavailable,
    StorageError,
    StoreError,
    StoreUnavailable,
    TenureError,
    TermLost,
    UsageError,
)
from tenure.events import DriverEnded, MemberReady, Once, PipelineEnded, StoreAway, TermEnded, TermWon
from tenure.link.driver import AFTER, BY_ITSELF, Ended, MemberDriver
from tenure.results.result import Ending, Result, Stage
from tenure.retry import Delays, exponential_delay
from tenure.scope_context import ScopeContext

DRIVER_RESTART = exponential_delay(initial=timedelta(seconds=3), maximum=timedelta(minutes=1))
"""How long a member waits before it starts another driver: the first batches of its successor need the cores."""

RESUME: Final = "mend the cause, then tenure resume, and start again"
"""What an operator does about a scope that is paused after failures."""

STORE_RETRY = exponential_delay(initial=timedelta(milliseconds=200), maximum=timedelta(seconds=5))


@dataclass(frozen=True, slots=True)
class Conduct:
    """How a member behaves."""

    ttl: timedelta
    hold: bool = True
    """Ride out the loss of a store that was reached before. Else the first failed renewal is an error."""
    cold: bool = False
    """The driver does not rehearse."""
    final: bool = False
    """The pipeline ends for good once all input is in the sinks."""
    ends: bool = False
    """The run is to end: after the last attempt at a batch it does so, and does not wait for an operator."""
    limits: Limits = field(default_factory=Limits)
    log: str = ""
    """The file with the output of Spark; empty: it is not known."""


class _Again(Exception):
    """A leadership failed by a cause that may pass, and its term is given up."""

    def __init__(self, failure: Failure, noted: Noted | None, error: TenureError) -> None:
        super().__init__(failure.why)
        self.failure = failure
        self.noted = noted
        """None: the failure is not in the store."""
        self.error = error


class Member:
    """Runs one member until its pipeline is done or `stop` is set."""

    def __init__(
        self,
        context: ScopeContext,
        *,
        identity: Identity,
        driver: MemberDriver,
        conduct: Conduct,
        warden: Warden | None = None,
        openings: Openings | None = None,
    ) -> None:
        """`warden` None: after the death of this process, its session ends by its ttl. `openings` None: the records of
        terms do not say how their queries began."""
        self._warden = warden
        self._store, self._scope = context.store, context.scope
        self._clock, self._events = context.clock, context.events
        self._results = context.results()
        self._identity = identity
        self._driver = driver
        self._conduct = conduct
        self._contends = False
        self._nothing_to_rehearse = True
        self._term: Term | None = None  # None: no term is held
        self._election = Election(
            self._store, self._scope, member=identity.member, clock=self._clock, http=identity.http
        )
        self._telling = Telling(self._election.own_terms, openings)
        self._past = PastMembers(context, identity)
        self._restarts = Restarts(self._store, self._scope, member=identity.member)
        self._failures = Failures(context, member=identity.member, limits=conduct.limits)
        self._outlook = Outlook(self._scope, identity, driver=driver, clock=self._clock, events=self._events)
        self._had_session = False
        self._was_permitted = False  # to lead, or to stand by beside a leader
        self._was_ready = False

    @property
    def condition(self) -> Condition:
        """The present condition. Any thread may ask."""
        return self._outlook.complete(self._present)

    @property
    def _present(self) -> Condition:
        name, term = self._identity.member, self._term
        if term is not None and not term.lost:
            return Condition(name, State.LEADING, term.epoch, ready=True, behind=self._driver.behind)
        if not self._contends or self._driver.gone is not None:
            return Condition(name, State.STARTING, None, ready=False)
        lag = self._driver.lag
        state = self._standing
        ready = state is State.WARM or (state is State.READY and (self._conduct.cold or self._nothing_to_rehearse))
        return Condition(name, state, None, ready=ready, lag=lag)

    @property
    def _standing(self) -> State:
        """The state of a standby whose driver is up."""
        if self._driver.warm:
            return State.WARM
        return State.FAILING if self._driver.trouble else State.READY

    def run(self, *, stop: threading.Event) -> Ended:
        """Stand by and lead until the pipeline is done (IDLE; CLEANED or DONE: for good) or `stop` is set (STOPPED).

        Raises the driver's own errors; DriverDied: the driver died before it was ready for the first time;
        StoreUnavailable: no session can be opened at the start, or the store does not permit to stand by or to lead;
        UsageError: another live member has this name; DeclaredOtherwise: the scope goes on with a newer Spark;
        CleanupIncomplete; OwnerMismatch: the store lost records that this member has read.
        """
        try:
            ended = self._run(stop)
        except TenureError as error:
            self._past.left(error)
            raise
        self._past.left(ended)
        return ended

    def _run(self, stop: threading.Event) -> Ended:
        restarts, retries = Delays(DRIVER_RESTART), Delays(STORE_RETRY)
        result = self._results.read()
        if result is not None and result.stage is Stage.CLEAN:
            self._say_ended(result)
            return Ended.DONE
        while not stop.is_set():
            began_s = self._clock.monotonic_s()
            try:
                ended = self._under_a_session(stop)
            except SessionEnded:
                continue  # the process was paused for longer than the ttl
            except DriverDied as died:
                if not self._was_ready:
                    raise
                again_s = restarts.after(self._clock.monotonic_s() - began_s)
                self._events.emit(
                    DriverEnded(self._scope, member=self._identity.member, why=str(died), again_s=round(again_s, 1))
                )
                self._past.returns(str(died))
                self._clock.wait(stop, timeout_s=again_s)
            except _Again as again:
                self._tried_again(again, stop, restarts, began_s=began_s)
            except (SourceUnavailable, StorageError) as away:  # of a driver that is prepared anew
                failure = self._failures.of(away)
                if failure is None or not self._was_ready:
                    raise
                self._tried_again(_Again(failure, None, away), stop, restarts, began_s=began_s)
            except (StoreUnavailable, OutcomeUnknown) as away:
                for_good = isinstance(away, AccessDenied) and not self._was_permitted
                if for_good or not (self._had_session and self._conduct.hold):
                    raise
                again_s = retries.after(self._clock.monotonic_s() - began_s)
                self._outlook.store_away(str(away))
                self._events.emit(
                    StoreAway(self._scope, member=self._identity.member, why=str(away), again_s=round(again_s, 1))
                )
                self._clock.wait(stop, timeout_s=again_s)
            else:
                if not AFTER[ended].again:
                    return ended
        return Ended.STOPPED

    def _tried_again(self, again: _Again, stop: threading.Event, delays: Delays, *, began_s: float) -> None:
        """Go on after a failure: the next campaign waits, by the record of the failure; without a record, this member
        waits. Raises the error: the run ends."""
        noted, error = again.noted, again.error
        wait_s = delays.after(self._clock.monotonic_s() - began_s) if noted is None else 0.0
        self._failures.emit(again.failure, noted, again_s=wait_s if noted is None else noted.failing.again_s)
        if self._failures.gives_up(noted):
            raise error
        if noted is not None and noted.spent and self._conduct.ends:
            fix = "; ".join(filter(None, (error.fix, RESUME)))
            raise type(error)(f"{error.what}; it was the last attempt, and the scope is paused", fix=fix) from error
        self._clock.wait(stop, timeout_s=wait_s)

    def _under_a_session(self, stop: threading.Event) -> Ended:
        purpose = self._identity.purpose(self._scope)
        with (
            SessionKeeper(self._store, ttl=self._conduct.ttl, clock=self._clock, purpose=purpose) as keeper,
            nullcontext() if self._warden is None else self._warden.ending(keeper),
        ):
            self._had_session = True
            self._outlook.opened(keeper.liveness)
            if not self._join(keeper, stop=stop):
                return Ended.STOPPED
            self._past.joined(self._election.joined)
            self._telling.tell_late()
            if self._prepared(keeper, stop):
                self._was_ready = True
                self._events.emit(MemberReady(scope=self._scope, member=self._identity.member))
            requests = Requests(self._restarts, stop=stop, gone=lambda: self._driver.gone, ends=self._conduct.ends)
            ahead = Once(self._events)
            newer = NewerSpark(self._scope)

            def look(records: Sequence[Record]) -> None:
                newer.look(records, spark=self._driver.spark)
                self._announce(keeper, self._standing, lag=self._driver.lag)
                requests.look(records, epoch=None)
                self._outlook.look(records)
                self._failures.look(records)
                self._past.look(records)
                self._driver.hear(_for_the_driver(records))
                ahead.look(*awaited_in(records, self._scope, member=self._identity.member))
                self._nothing_to_rehearse = not newest_batches(records)
                self._was_permitted |= any(record.key == LEADER for record in records)
                self._contends = True

            try:
                term = self._election.campaign(keeper, stop=requests, on_look=look, last_write=last_write)
            finally:
                self._contends = False
            if term is not None:
                self._driver.elected()
                self._was_permitted = True
                ended = self._attended(term, keeper, requests, stop=stop)
            elif stop.is_set():
                ended = Ended.STOPPED
            elif requests.done is not None:
                self._say_ended(requests.done)
                ended = Ended.DONE
            elif requests.failed is not None:
                raise QueryFailed(f"scope {self._scope!r} is paused: {pause_line(requests.failed)}", fix=RESUME)
            elif requests.restart is not None:
                ended = Ended.RESTART
            else:
                raise DriverDied(self._driver.gone or "the driver ended")
            if ended is Ended.RESTART and requests.restart is not None:
                self._driver.close()
                self._restarts.obeyed(requests.restart)
            return ended

    def _prepared(self, keeper: SessionKeeper, stop: threading.Event) -> bool:
        """Prepare the driver; False: it was prepared before, or `stop` is set. Where a driver was ready before, the
        refusal of the next driver may pass, as it would at a grant. Raises as `run` does."""
        try:
            return self._driver.prepare(scope=self._scope, stop=stop, records=lambda: self._read(keeper, stop))
        except (UsageError, PipelineFileError, QueryFailed) as refused:
            if not self._was_ready or isinstance(refused, SourceUnavailable):  # the scope notes it
                raise
            raise DriverDied(f"the next driver is not ready: {refused.what}", fix=refused.fix) from refused

    def _read(self, keeper: SessionKeeper, stop: Flag) -> Sequence[Record]:
        """The records that the driver asks for. Raises StoreUnavailable."""
        listing = read_again(
            lambda: self._store.list(self._scope, ""),
            over=lambda: keeper.liveness.over or stop.is_set(),
            at_most=LONG,
            clock=self._clock,
        )
        return _for_the_driver(listing.records)

    def _attended(self, term: Term, keeper: SessionKeeper, requests: Requests, *, stop: threading.Event) -> Ended:
        """Lead, while a thread watches the `leader` record and the requests of operators."""

        began: Mapping[str, int] | None = None  # query -> its newest batch at the first look; None: there was none

        def look(records: Sequence[Record]) -> None:
            nonlocal began
            if began is None:
                began = newest_batches(records)
            self._announce(keeper, State.LEADING, behind=self._driver.behind)
            self._telling.look(term)
            self._past.look(records, term)
            requests.look(records, epoch=term.epoch)
            self._outlook.look(records)
            self._failures.clear(term, records, began=began, led_s=self._clock.monotonic_s() - began_s)

        began_s = self._clock.monotonic_s()
        with self._election.attending(term, on_look=look):
            self._term = term
            try:
                return self._lead(term, requests, stop=stop)
            finally:
                self._term = None

    def _lead(self, term: Term, requests: Requests, *, stop: threading.Event) -> Ended:
        self._events.emit(TermWon(scope=self._scope, member=self._identity.member, epoch=term.epoch))
        away = threading.Event()  # set for good: a renewal failed

        def is_over() -> bool:
            if term.liveness.cause is not None:
                away.set()
            return away.is_set() or stop.is_set()

        halt: Flag = stop if self._conduct.hold else When(is_over)
        try:
            ended = self._lead_or_clean(term, stop=halt, finish=requests.finish)
        except TermLost:
            ended = Ended.LOST
        except DriverDied as died:
            asked = Ended.STOPPED if stop.is_set() else requests.finish_as
            how = End(died.word, died.what.removeprefix(BY_ITSELF)) if asked is None else requests.end_of(asked)
            self._give_up(term, None if term.lost else how)
            raise
        except Exception as error:
            failure = None if term.lost else self._failures.of(error)
            if failure is not None and isinstance(error, TenureError):
                raise _Again(failure, self._resign_over(term, failure), error) from error
            if not term.lost or isinstance(error, BatchMayBeShort):
                self._give_up(term, None if term.lost else End(FAILED, getattr(error, "what", "")))
                raise
            ended = Ended.LOST  # a successor may have removed files that the driver still needed
        if ended is Ended.STOPPED and not stop.is_set() and requests.finish_as is not None:
            ended = requests.finish_as
        self._give_up(term, requests.end_of(ended))
        if ended is Ended.STOPPED and not (self._conduct.hold or stop.is_set()):
            cause = term.liveness.cause
            raise StoreUnavailable(f"the store is away, and on_store_loss says stop: {cause}") from cause
        if ended is Ended.FAILED:  # a driver raises a query's error; here it raised none
            raise QueryFailed(
                "a query failed, and the driver does not say why",
                fix=f"see {self._conduct.log or 'the file of --spark-log'}",
            )
        if ended is Ended.LEFT:
            raise CleanupIncomplete(f"the pipeline of scope {self._scope!r} has ended, and its cleanup is incomplete")
        return ended

    def _lead_or_clean(self, term: Term, *, stop: Flag, finish: Flag) -> Ended:
        """Let the driver lead. A pipeline that has ended, before or now, is cleaned up instead."""
        result = self._results.read(term)
        if result is None:
            ended = self._driver.lead(term, stop=stop, finish=finish)
            if ended is not Ended.IDLE or not self._conduct.final:
                return ended
            now = self._clock.now().isoformat(timespec="milliseconds")
            result = Result(Ending.FINISHED, Stage.DIRTY, term.epoch, self._identity.member, now)
            result = self._results.write_dirty(term, result)
        self._say_ended(result)
        if result.stage is Stage.CLEAN:
            return Ended.DONE
        ended = self._driver.clean(term, stop=stop)
        if ended is Ended.CLEANED:
            self._results.mark_clean(term)
            self._say_ended(replace(result, stage=Stage.CLEAN))
        return ended

    def _say_ended(self, result: Result) -> None:
        clean = result.stage is Stage.CLEAN
        self._events.emit(PipelineEnded(self._scope, ending=result.ending.value, epoch=result.epoch, clean=clean))

    def _give_up(self, term: Term, end: End | None) -> None:
        """Resign, and say that the term is over. `end` None: the term is lost."""
        if end is None:
            cause = "" if term.liveness.cause is None else f": {term.liveness.cause}"
            self._say_over(term, untold=f"{term.liveness.why or 'refused'}{cause}")
            return
        try:
            self._election.resign(term, end)
        except TermLost:
            self._say_over(term, untold="refused")
        except StoreError as failed:
            self._say_over(term, untold=f"not resigned, it ends with the session: {failed}")
        else:
            self._say_over(term, end)

    def _say_over(self, term: Term, end: End | None = None, *, untold: str = "") -> None:
        """Say that the term is over. `untold`: how this member learned of an end that it did not tell; the record of
        the term gets it in the next session."""
        self._telling.over(term.epoch, untold=untold)
        why, detail = (untold, "") if end is None else (end.why, end.detail)
        event = TermEnded(self._scope, self._identity.member, epoch=term.epoch, why=why, detail=detail)
        self._events.emit(event)

    def _resign_over(self, term: Term, failure: Failure) -> Noted | None:
        """Give the term up over a failure; None: the failure is not noted, and the term ends with the session."""
        try:
            noted = self._failures.resign(self._election, term, failure)
        except TermLost:
            self._say_over(term, untold=f"refused; {failure.kind}: {failure.what}")
        except StoreError as failed:
            self._say_over(term, untold=f"not resigned, it ends with the session: {failed}")
        else:
            self._say_over(term, End(failure.kind, failure.what))
            return noted
        return None

    def _announce(
        self, keeper: SessionKeeper, state: State, *, lag: Lag | None = None, behind: Mapping[str, int] = NOT_BEHIND
    ) -> None:
        silent = SILENT if self._driver.silent_s > SILENT_S else ""
        trouble = self._driver.trouble if state is State.FAILING else silent
        self._election.announce(keeper, state, lag=lag, behind=behind, file=self._driver.file, trouble=trouble)

    def _join(self, keeper: SessionKeeper, *, stop: threading.Event) -> bool:
        """Announce the member; False: `stop` was set first. Its own earlier session may have to end first."""
        return join_after_itself(
            self._election, keeper, self._identity, state=State.STARTING, stop=stop, clock=self._clock
        )


def _for_the_driver(records: Sequence[Record]) -> Sequence[Record]:
    """The records that a standby's driver reads. The members' own change each second."""
    return [record for record in records if not record.key.is_under(MEMBERS)]
