"""The page over HTTP: its streams, and what it answers to foreign names, other sites and strangers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tenure.coordination.candidates import PAUSED
from tenure.coordination.records import Listing, Scope
from tenure.errors import Corrupt
from tenure.operate.history import history
from tenure.ui.access_rules import COOKIE, Access
from tenure.ui.boards import VIEWERS_MOST
from tenure.ui.fleet_figures import SCOPE_METRICS, fleet_page
from tests.kit.memory import MemoryStore
from tests.kit.waiting import NEVER_S, wait_until
from tests.unit.ui.site import TOKEN, Served, led

PATHS = (
    "/",
    "/p/rows",
    "/favicon.svg",
    "/static/page.js",
    "/api/session",
    "/api/live",
    "/api/p/rows/live",
    "/metrics",
    "/nothing",
)


@pytest.fixture
def served() -> Iterator[Served]:
    """Read by everybody, with a token for operators."""
    found = Served(Access(TOKEN, hosts=frozenset({"ui.example.org"})))
    yield found
    found.close()


def first(messages: Iterator[dict[str, Any]], *, with_part: str) -> Any:
    """The part of this name, once it is there."""
    return next(message["parts"][with_part] for message in messages if message["parts"].get(with_part) is not None)


# --- figures ---


def figures(served: Served, **headers: str) -> dict[str, float]:
    """The figures of all scopes, by name and scope."""
    reply = served.ask("/metrics", **headers)
    assert reply.code == 200, reply.body
    families = text_string_to_metric_families(reply.body)
    return {f"{one.name} {one.labels['scope']}": one.value for family in families for one in family.samples}


def test_a_scrape_sees_a_scope_whose_members_are_all_dead(served: Served) -> None:
    with led(served.store, "rows"):
        live = figures(served)
        assert (
            live["tenure_scope_led rows"] == live["tenure_scope_members rows"] == live["tenure_scope_epoch rows"] == 1
        )
        assert live["tenure_scope_level rows"] == 1, "no standby lives"
    dead = figures(served)
    assert dead["tenure_scope_led rows"] == dead["tenure_scope_members rows"] == 0
    assert dead["tenure_scope_level rows"] == 2
    assert {name.split()[0].removeprefix("tenure_") for name in dead} == {*SCOPE_METRICS} - {
        "scope_last_plan_timestamp_seconds"  # nothing is planned
    }


def test_a_scope_that_is_damaged_has_a_level_alone() -> None:
    lines = fleet_page([(Scope("rows"), Corrupt("record 'epoch' does not decode"))]).splitlines()
    assert [line for line in lines if not line.startswith("#")] == ['tenure_scope_level{scope="rows"} 2']


def test_a_page_of_one_pipeline_and_a_page_for_operators_keep_the_figures() -> None:
    served = Served(Access(token=TOKEN, reads_openly=False))
    try:
        assert served.ask("/metrics").code == 401
        assert figures(served, Authorization=f"Bearer {TOKEN}") == {}
    finally:
        served.close()
    alone = Served(Access(), only=Scope("rows"))
    try:
        assert alone.ask("/metrics").code == 404
    finally:
        alone.close()


# --- streams ---


def test_a_pipeline_is_followed(served: Served) -> None:
    with served.stream("/api/p/rows/live") as messages:
        assert first(messages, with_part="verdict")["findings"][0]["rule"] == "never-led"
        with led(served.store, "rows"):
            assert first(messages, with_part="office")["leader"] == "anna"
        found = next(m["parts"]["office"] for m in messages if m["parts"].get("office", {}).get("leader", "") is None)
        assert found["empty_since"]


def test_all_pipelines_are_shown_and_only_changed_rows_are_sent(served: Served) -> None:
    with led(served.store, "b"), led(served.store, "a"), served.stream("/api/live") as messages:
        message = next(m for m in messages if "all" in m["parts"])
        assert {name for name in message["parts"] if name.startswith("row ")} == {"row a", "row b"}
        assert message["parts"]["row a"]["leader"] == "anna"
        assert message["parts"]["store"]["name"] == "memory"


def test_the_threads_end_with_the_last_viewer(served: Served) -> None:
    def threads() -> list[str]:
        return [one.name for one in threading.enumerate() if one.name in ("tenure-ui-scope", "tenure-ui-members")]

    with served.stream("/api/p/rows/live") as messages, served.stream("/api/p/rows/live") as others:
        next(messages)
        next(others)
        wait_until(lambda: len(threads()) == 2, what="one follower for two viewers")
    wait_until(lambda: not threads(), what="the end of the threads")


def test_open_streams_end_with_the_page() -> None:
    served = Served(Access())
    with served.stream("/api/p/rows/live") as messages, served.stream("/api/live") as others:
        next(messages)
        next(others)
        served.page.close()
        assert all("parts" in message for message in (*messages, *others)), "both end by themselves"
    served.close()
    assert not served.server._thread.is_alive()


def test_more_viewers_than_there_is_room_for_are_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert VIEWERS_MOST >= 100
    monkeypatch.setattr("tenure.ui.boards.VIEWERS_MOST", 1)
    with served.stream("/api/p/rows/live") as messages:
        next(messages)
        refused = served.ask("/api/p/other/live")
        assert (refused.code, refused.json["error"]) == (503, "1 viewers are here already; try again later")


def test_a_name_that_is_no_scope_is_refused(served: Served) -> None:
    assert served.ask("/api/p/a%20b/live").code == 409


def test_the_page_of_an_agent_has_its_own_scope_alone() -> None:
    served = Served(Access(), only=Scope("rows"))
    try:
        assert 'data-scope="rows"' in served.ask("/").body
        with led(served.store, "rows"), led(served.store, "other"), served.stream("/api/live") as messages:
            assert first(messages, with_part="office")["leader"] == "anna"
        assert served.ask("/api/p/other/live").code == 409
    finally:
        served.close()


# --- foreign names and other sites ---


@pytest.mark.parametrize("path", PATHS)
def test_a_foreign_host_is_refused_everywhere(served: Served, path: str) -> None:
    assert served.ask(path, Host="evil.example").code == 400
    assert served.ask(path, "POST", body={}, Host="evil.example").code == 400


@pytest.mark.parametrize("host", ["localhost:8600", "ui.example.org", "10.0.0.7"])
def test_the_names_of_the_page_are_served(served: Served, host: str) -> None:
    assert served.ask("/", Host=host).code == 200


@pytest.mark.parametrize("path", [path for path in PATHS if not path.endswith("live")])
def test_each_answer_keeps_other_sites_out(served: Served, path: str) -> None:
    for reply in (served.ask(path), served.ask(path, Host="evil.example")):
        policy = reply.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in reply.headers
        assert "server" not in reply.headers


def test_a_scope_is_text_in_the_page_and_nothing_else(served: Served) -> None:
    body = served.ask("/p/%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E").body
    assert "<script>alert" not in body


def test_no_file_beside_the_static_files_is_served(served: Served) -> None:
    assert served.ask("/static/../app.py").code == 404
    assert served.ask("/static/%2e%2e/app.py").code == 404


# --- operators ---


def sign_in(served: Served, name: str = "ops") -> str:
    reply = served.ask("/api/session", "POST", body={"name": name, "token": TOKEN}, Origin=served.origin)
    assert reply.code == 200, reply.body
    shown = reply.headers["set-cookie"]
    assert all(word in shown for word in ("HttpOnly", "SameSite=strict", "Path=/")), shown
    assert TOKEN not in shown
    return shown.partition(";")[0]


def is_paused(served: Served) -> bool:
    return MemoryStore(served.store).read(Scope("rows"), PAUSED) is not None


def test_an_operator_signs_in_acts_and_signs_out(served: Served) -> None:
    with led(served.store, "rows"):
        cookie = sign_in(served)
        assert served.ask("/api/session", Cookie=cookie).json == {"acts": True, "reads": True, "name": "ops"}
        reply = served.ask(
            "/api/p/rows/pause", "POST", body={"reason": "new disk"}, Cookie=cookie, Origin=served.origin
        )
        assert (reply.code, reply.json) == (200, {"done": "the scope is paused"})
        with served.stream("/api/p/rows/live") as messages:
            (finding, *_) = first(messages, with_part="verdict")["findings"]
        assert "paused by ui:ops" in finding["sentence"]
        assert finding["cause"] == "new disk"
        gone = served.ask("/api/session", "DELETE", Cookie=cookie).headers["set-cookie"]
        assert gone.startswith(f'{COOKIE}=""')


def test_a_program_acts_with_the_token(served: Served) -> None:
    with led(served.store, "rows"):
        told = served.ask("/api/p/rows/pause", "POST", body={"by": "cron"}, Authorization=f"Bearer {TOKEN}")
        assert told.code == 200, told.body
        assert served.ask("/api/p/rows/resume", "POST", body={}, Authorization=f"Bearer {TOKEN}").code == 200
        assert not is_paused(served)


def test_a_failover_needs_the_name_of_the_scope(served: Served) -> None:
    with led(served.store, "rows"):
        bearer = f"Bearer {TOKEN}"
        for typed in ("", "Rows", "rows "):
            refused = served.ask("/api/p/rows/failover", "POST", body={"typed": typed}, Authorization=bearer)
            assert (refused.code, "type rows to confirm" in refused.json["error"]) == (409, True)
        refused = served.ask("/api/p/rows/failover", "POST", body={"typed": "rows"}, Authorization=bearer)
        assert "no standby of scope 'rows' could take over" in refused.json["error"]
        assert history(MemoryStore(served.store), Scope("rows")).terms[-1].until == ""


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer a-token-of-many-characterz"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": f"{COOKIE}=ops|9999999999|00"},
        {"Cookie": "good", "Origin": "http://evil.example"},
        {"Cookie": "good"},
        {"Cookie": "good", "Origin": "null"},
        {"Authorization": f"Bearer {TOKEN}", "Origin": "http://evil.example"},
    ],
)
def test_a_stranger_changes_nothing(served: Served, headers: dict[str, str]) -> None:
    with led(served.store, "rows"):
        if headers.get("Cookie") == "good":
            headers = {**headers, "Cookie": sign_in(served)}
        assert served.ask("/api/p/rows/pause", "POST", body={}, **headers).code == 403
        assert not is_paused(served)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_a_form_of_another_site_is_no_request(served: Served, kind: str) -> None:
    bearer = f"Bearer {TOKEN}"
    assert served.ask("/api/p/rows/pause", "POST", body={}, Authorization=bearer, Content_Type=kind).code == 409


@pytest.mark.parametrize("given", [{"name": "ops", "token": "wrong"}, {"name": "a b", "token": TOKEN}, {}])
def test_nobody_else_signs_in(served: Served, given: dict[str, str]) -> None:
    reply = served.ask("/api/session", "POST", body=given, Origin=served.origin)
    assert reply.code in (400, 403)
    assert "set-cookie" not in reply.headers
    foreign = served.ask("/api/session", "POST", body={"name": "ops", "token": TOKEN}, Origin="http://evil.example")
    assert (foreign.code, "set-cookie" in foreign.headers) == (403, False)


def test_without_a_token_there_is_no_action() -> None:
    served = Served(Access())
    try:
        for path in ("/api/p/rows/pause", "/api/p/rows/failover", "/api/session"):
            assert served.ask(path, "POST", body={"typed": "rows"}, Authorization=f"Bearer {TOKEN}").code in (404, 405)
        assert served.ask("/api/session").json == {"acts": False, "reads": True, "name": None}
    finally:
        served.close()


def test_a_page_that_is_not_open_shows_nothing_to_strangers() -> None:
    served = Served(Access(TOKEN, reads_openly=False))
    try:
        with led(served.store, "rows"):
            for path in ("/api/live", "/api/p/rows/live"):
                assert served.ask(path).code == 401
                with served.stream(path, Cookie=sign_in(served)) as messages:
                    next(messages)
            assert served.ask("/").code == 200, "the page asks to sign in"
    finally:
        served.close()


def test_a_store_that_hangs_holds_up_no_other_answer() -> None:
    hung, served = threading.Event(), Served(Access())
    try:
        store = MemoryStore(served.store)
        listing = store.list

        def hang(scope: Scope, prefix: str = "") -> Listing:
            hung.wait(NEVER_S)
            return listing(scope, prefix)

        store.list = hang  # type: ignore[method-assign] # a store that does not answer
        served.page._site.client._open = lambda: store
        with served.stream("/api/p/rows/live") as messages:
            next(messages)
            assert served.ask("/").code == 200
            assert served.ask("/api/session").code == 200
    finally:
        hung.set()
        served.close()
