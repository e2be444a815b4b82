"""The page in a real browser, beside real agents and a real `tenure ui`: a failover, an outage, an operator.

Pictures of the pages go to `build/ui`, for people.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tenure.backends.registry import open_store
from tenure.backends.sqlite import SqliteStore
from tenure.clock import SystemClock, timestamp
from tenure.coordination.election import observe
from tenure.coordination.election_rules import Grant, Office, encode_office
from tenure.coordination.identity import Birth, put_identity
from tenure.coordination.reading import wait_for_change
from tenure.coordination.records import Put, Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import EPOCH
from tenure.errors import StoreError
from tenure.operate.history import history
from tenure.operate.orders import Orders
from tests.agents.busy import COMMAND
from tests.house.tree import ROOT
from tests.kit.browser import chromium, opened
from tests.kit.members import MemberProcess
from tests.kit.process import GroupProcess
from tests.kit.servers import installed
from tests.kit.servers.process import free_ports
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CLOCK = SystemClock()
SCOPE = Scope("shop-orders")
PICTURES: Final = ROOT / "build" / "ui"
NEAR_MS: Final = 2000
"""How long after the store has a new leader the page shows it, at most, in the best of some failovers: a machine may be
slow once."""
NOT_LONG: Final = timedelta(milliseconds=500)
TOKEN: Final = "a-token-of-many-characters"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with installed(), chromium() as started:
        yield started


class Fleet:
    """Members of one scope on a SQLite store, and the page."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.store = folder / "ha.db"
        self.url = f"sqlite://{self.store}"
        self._stack = stack
        (folder / "storage").mkdir()

    def member(self, name: str) -> MemberProcess:
        """Start a member, and wait until it is ready."""
        (port,) = free_ports(1)
        arguments = ["run", "rows.py", "--store", self.url, "--scope", SCOPE, "--ttl", "3s", "--quiet"]
        arguments += ["--storage", f"file://{self.folder}/storage", "--http", f"127.0.0.1:{port}"]
        found = MemberProcess(name, folder=self.folder, arguments=arguments, command=COMMAND)
        self._stack.enter_context(found)
        found.wait_for("MemberReady")
        return found

    def page(self, *flags: str) -> tuple[GroupProcess, str]:
        """Start `tenure ui`, and wait until it answers. Returns it, and its address."""
        (port,) = free_ports(1)
        command = [*COMMAND, "ui", "--store", self.url, "--bind", f"127.0.0.1:{port}", *flags]
        process = GroupProcess(command, log=self.folder / f"ui-{port}.out")
        process.start()
        self._stack.callback(process.kill)
        wait_until(lambda: "the page is at" in process.output(), what="the page")
        return process, f"http://127.0.0.1:{port}"

    def fail_over(self, member: str) -> None:
        """Give the leadership to this member, once it could lead."""
        with closing(open_store(self.url, clock=CLOCK)) as store:
            wait_until(lambda: is_ready(store, member), what="a standby")
            Orders(store, SCOPE, clock=CLOCK).failover(to=member)

    @contextmanager
    def watched(self) -> Iterator[dict[str, float]]:
        """Leader -> when a watcher of the store saw that leader first, in ms since 1970."""
        seen: dict[str, float] = {}
        over = threading.Event()

        def watch() -> None:
            with closing(open_store(self.url, clock=CLOCK)) as store:
                while not over.is_set():
                    try:
                        view = observe(store, SCOPE)
                        if view.leader is not None:
                            seen.setdefault(f"{view.leader} {view.epoch}", time.time() * 1000)
                        wait_for_change(store, SCOPE, after=view.revision, timeout=NOT_LONG, clock=CLOCK)
                    except StoreError:
                        continue

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            over.set()
            thread.join()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(tmp_path, stack)


def shot(page: Page, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def leads(page: Page, member: str) -> float:
    """Wait until the page shows this leader, and return when it did, in ms since 1970."""
    page.wait_for_selector(f'html[data-leader="{member}"]', state="attached")
    return float(page.evaluate("() => document.documentElement.dataset.leaderAt"))


def check_access(page: Page) -> None:
    """What a person with a screen reader would miss, by axe-core."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def check_width(page: Page) -> None:
    """No page scrolls sideways, once its drawings have their new width: the browser tells them after a frame."""
    page.wait_for_function("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def check_keyboard(page: Page) -> None:
    """The Tab key alone reaches every control that is shown."""
    count = page.evaluate(
        """() => {
          const all = [...document.querySelectorAll("a[href], button, input, select, summary")];
          const shown = all.filter((one) => one.checkVisibility());
          shown.forEach((one, number) => one.dataset.control = number);
          document.activeElement.blur();
          return shown.length;
        }"""
    )
    assert count > 3
    reached = set()
    for _ in range(3 * count + 10):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement?.dataset.control ?? ''"))
        if len(reached - {""}) == count:
            return
    missed = sorted({str(number) for number in range(count)} - reached)
    names = page.evaluate("(all) => all.map((n) => document.querySelector(`[data-control='${n}']`)?.outerHTML)", missed)
    raise AssertionError(f"the keyboard does not reach {names}")


def check_everywhere(browser: Browser, url: str, name: str, *, ready: str) -> None:
    """The page in light and dark, narrow and wide."""
    for dark in (False, True):
        with opened(browser, width=1600, dark=dark) as found:
            found.page.goto(url)
            found.page.wait_for_selector(ready)
            check_access(found.page)
            for width in (1600, 390):
                found.page.set_viewport_size({"width": width, "height": 900})
                check_width(found.page)
                shot(found.page, f"{name}-{width}-{'dark' if dark else 'light'}")
            assert found.troubles == []


def test_a_failover_is_on_the_page_as_soon_as_in_the_store(browser: Browser, fleet: Fleet) -> None:
    anna = fleet.member("anna")
    anna.wait_for("TermWon")
    fleet.member("ben")
    process, address = fleet.page()
    with fleet.watched() as seen, opened(browser) as found:
        page = found.page
        page.goto(f"{address}/p/{SCOPE}")
        leads(page, "anna")
        page.wait_for_selector("text=first batch runs", state="attached")
        assert page.inner_text("#announce") == "", "what stands there from the first is no change"
        anna.kill()
        late = [leads(page, "ben") - seen["ben 2"]]
        assert page.inner_text("#announce") == "ben leads, epoch 2"
        page.wait_for_selector("tr:has-text('session ended')")
        fleet.member("cara")
        for epoch, leader in enumerate(("cara", "ben", "cara"), start=3):
            if min(late) <= NEAR_MS and epoch > 3:
                break
            fleet.fail_over(leader)
            late.append(leads(page, leader) - seen[f"{leader} {epoch}"])
        assert min(late) <= NEAR_MS
        assert found.troubles == []
        wait_until(lambda: len(page.query_selector_all("[aria-label=Batches] tbody tr")) > 5, what="batches")
        check_keyboard(page)
        check_everywhere(browser, f"{address}/p/{SCOPE}", "pipeline", ready="[aria-label=Takeover] svg")
        check_everywhere(browser, f"{address}/", "fleet", ready=f"td >> text={SCOPE}")
        process.signal(15)
        assert process.wait() == 0, "with an open page"
        page.wait_for_selector("text=This page has no connection to its server")


def is_ready(store: CoordinationStore, member: str) -> bool:
    view = observe(store, SCOPE)
    return any(one.member == member and one.ready for one in view.members)


@pytest.mark.long
def test_an_outage_of_the_store_is_said_and_the_page_keeps_what_it_knew(browser: Browser, fleet: Fleet) -> None:
    anna = fleet.member("anna")
    anna.wait_for("TermWon")
    _, address = fleet.page()
    with opened(browser) as found:
        page = found.page
        page.goto(f"{address}/p/{SCOPE}")
        leads(page, "anna")
        away = fleet.store.rename(fleet.store.with_suffix(".away"))
        page.wait_for_selector(".old:has-text('The store does not answer since')")
        assert "anna" in page.inner_text("[aria-label=Members]")
        assert page.inner_text("#fresh") == "old"
        page.wait_for_selector("[aria-label=Terms] td:has-text('as of')")
        shot(page, "store-away")
        check_access(page)
        with opened(browser) as later:
            later.page.goto(f"{address}/p/{SCOPE}")
            later.page.wait_for_selector(".old:has-text('The parts of the store below are old')")
            assert "anna" in later.page.inner_text("[aria-label=Members]"), "a later viewer sees the same"
        away.rename(fleet.store)
        page.wait_for_selector(".old", state="hidden")
        assert found.troubles == []


@pytest.mark.long
def test_an_operator_signs_in_and_fails_over_by_the_keyboard_alone(browser: Browser, fleet: Fleet) -> None:
    anna = fleet.member("anna")
    anna.wait_for("TermWon")
    fleet.member("ben")
    (fleet.folder / "token").write_text(TOKEN + "\n")
    _, address = fleet.page("--token-file", str(fleet.folder / "token"))
    with opened(browser) as found:
        page, keys = found.page, found.page.keyboard
        page.goto(f"{address}/p/{SCOPE}")
        leads(page, "anna")
        assert page.query_selector("[aria-label=Actions]") is None
        page.focus("text=Sign in")
        keys.press("Enter")
        check_access(page)
        for word in ("ops", TOKEN):
            keys.type(word)
            keys.press("Tab")
        keys.press("Enter")
        page.wait_for_selector("[aria-label=Actions]")
        page.wait_for_selector("tr:has-text('ben')")
        page.focus("text=Failover")
        keys.press("Enter")
        check_access(page)
        shot(page, "failover")
        for word in ("", "new disk", "another name"):
            keys.type(word)
            keys.press("Tab")
        keys.press("Enter")
        page.wait_for_selector("text=the name of the scope is not typed as it is")
        page.fill("[name=typed]", SCOPE)
        keys.press("Enter")
        leads(page, "ben")
        page.wait_for_selector("tr:has-text('by ui:ops, new disk')")
        with closing(open_store(fleet.url, clock=CLOCK)) as store:
            ended = history(store, SCOPE).terms[0]
        assert (ended.why, ended.by, ended.reason) == ("failover", "ui:ops", "new disk")
        refused = [trouble for trouble in found.troubles if "409" not in trouble]
        assert refused == []


@pytest.mark.long
def test_five_hundred_pipelines(browser: Browser, fleet: Fleet) -> None:
    with closing(SqliteStore(fleet.store)) as store:
        office = Office(3, "anna", timestamp(CLOCK), past=(Grant(2, "ben", timestamp(CLOCK)),))
        put = Put(EPOCH, encode_office(office, uid="u"), replaces=None)
        for number in range(500):
            name = Scope(f"{('shop', 'bank', 'fleet', 'mail')[number % 4]}-{number:03}")
            store.commit(name, guards=(), writes=(put, put_identity(Birth(f"life-{number}", 1), replaces=None)))
    _, address = fleet.page()
    with opened(browser) as found:
        page = found.page
        page.goto(address)
        page.wait_for_selector("tr:has-text('shop-000')")
        assert len(page.query_selector_all("tbody tr")) == 500
        assert "500 of 500 pipelines need you: bank-001" in page.inner_text(".say")
        page.fill("#find-q", "shop-00")
        wait_until(lambda: len(page.query_selector_all("tbody tr")) == 3, what="the filter")
        page.select_option("#choose-group", "prefix")
        page.wait_for_selector("h3:has-text('shop')")
        assert page.url.endswith("?q=shop-00&group=prefix")
        page.reload()
        page.wait_for_selector("h3:has-text('shop')")
        assert len(page.query_selector_all("tbody tr")) == 3, "the address keeps filter and groups"
        page.fill("#find-q", "")
        wait_until(lambda: len(page.query_selector_all("h3")) == 4, what="the groups")
        check_width(page)
        assert found.troubles == []
