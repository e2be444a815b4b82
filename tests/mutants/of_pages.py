"""What keeps the page of `tenure ui` honest, and strangers away from it."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Change, Mutant

RULES: Final = "ui/access_rules.py"
APP: Final = "ui/app.py"
PAGES: Final = "ui/pages.py"
OF_RULES: Final = "tests/unit/ui/test_access_rules.py::"
OF_APP: Final = "tests/unit/ui/test_app.py::"
OF_LATE: Final = "tests/unit/ui/test_late.py::"
OF_PARTS: Final = "tests/unit/ui/test_pages.py::"

OF_PAGES: Final = (
    Mutant(
        "any-host-is-served",
        "a site whose name leads to this machine reads the page in an operator's browser",
        (Change(RULES, 'or host.endswith(".localhost") or host in names', "or True"),),
        (
            OF_RULES + "test_a_foreign_name_is_not_served[evil.example-False]",
            OF_APP + "test_a_foreign_host_is_refused_everywhere[/api/session]",
        ),
    ),
    Mutant(
        "a-cookie-is-enough",
        "another site lets an operator's browser fail a pipeline over",
        (Change(RULES, "return name if asked.bearer or is_own_origin(asked) else None", "return name"),),
        (OF_APP + "test_a_stranger_changes_nothing[headers5]",),
    ),
    Mutant(
        "the-origin-is-not-read",
        "a request of another site with the cookie is obeyed",
        (Change(RULES, "return bool(asked.origin) and urlsplit", "return bool(asked.origin) or urlsplit"),),
        (OF_APP + "test_a_stranger_changes_nothing[headers4]", OF_APP + "test_nobody_else_signs_in[given0]"),
    ),
    Mutant(
        "a-cookie-lasts-for-ever",
        "a cookie that somebody copied once lets act for ever",
        (Change(RULES, "return name if now_s < int(until) else None", "return name"),),
        (OF_RULES + "test_a_cookie_names_its_operator_until_it_is_over",),
    ),
    Mutant(
        "strangers-read",
        "a page that wants a token for readers is open to all",
        (Change(APP, "if not access_rules.may_read(", "if False and not access_rules.may_read("),),
        (OF_APP + "test_a_page_that_is_not_open_shows_nothing_to_strangers",),
    ),
    Mutant(
        "a-failover-by-a-slip",
        "one press fails a pipeline over, whichever it is",
        (Change("ui/actions.py", 'action.kind == "failover" and action.typed != action.scope', "False"),),
        (OF_APP + "test_a_failover_needs_the_name_of_the_scope",),
    ),
    Mutant(
        "no-policy",
        "another site frames the page, and a text of the store that is a script could run",
        (Change(APP, 'message["headers"] = [*message["headers"], *HEADERS]', "pass"),),
        (OF_APP + "test_each_answer_keeps_other_sites_out[/]",),
    ),
    Mutant(
        "members-lead-elsewhere",
        "a record of a member lets the server of the page ask any address of its network by a redirection",
        (Change("ui/asking.py", "build_opener(ProxyHandler({}), _NoRedirections)", "build_opener(ProxyHandler({}))"),),
        ("tests/unit/ui/test_asking.py::test_no_redirection_is_followed_and_no_proxy_is_used",),
    ),
    Mutant(
        "passwords-on-the-page",
        "the text of an error shows a password to all who look",
        (Change("ui/board.py", "return masked(data)", "return data"),),
        ("tests/unit/ui/test_board.py::test_no_text_has_a_password",),
    ),
    Mutant(
        "others-see-the-page-of-an-agent",
        "who reaches the probes of a member reads the store through it",
        (Change("ui/late.py", "if client is None or not is_loopback(client[0]):", "if False:"),),
        (OF_LATE + "test_a_client_of_another_host_is_sent_away",),
    ),
    Mutant(
        "nobody-knows-is-led",
        "the time line draws a time in which nobody may have led as a term",
        (Change(PAGES, "if surely != before.until:", "if False:"),),
        (OF_PARTS + "test_a_time_in_which_nobody_knows_is_no_term_and_no_gap",),
    ),
)
