"""`tenure ui`: the page for operators, until a signal ends it.

Promise: it reads, and writes nothing without `--token-file`. An address that others reach is refused unless a token or
`--read-only-public` says who may read. Ctrl-C and SIGTERM end it within seconds, also while pages are open.
"""

from __future__ import annotations

import signal
import socket
import threading
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tenure.cli.options import takes_settings
from tenure.cli.output import say
from tenure.cli.signals import stop_on_signals
from tenure.clock import SystemClock
from tenure.errors import UsageError
from tenure.opening import scope_store
from tenure.settings import Settings
from tenure.ui.access_rules import TOKEN_LEAST, Access, is_loopback
from tenure.ui.store_client import StoreClient
from tenure.wording import how_to_install, masked_url


@takes_settings("store")
def ui(
    settings: Settings,
    bind: Annotated[
        str, typer.Option("--bind", metavar="HOST:PORT", help="Where the page is served.")
    ] = "127.0.0.1:8600",
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="A file with the token that lets operators act."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A name by which a proxy asks for the page; repeatable."),
    ] = None,
    *,
    read_only_public: Annotated[
        bool, typer.Option("--read-only-public", help="Let everybody who reaches the address read.")
    ] = False,
) -> None:
    """The page: all pipelines of the store, and each one live. Read-only without --token-file.

    Example: tenure ui --store sqlite:///srv/ha.db
    """
    try:
        from tenure.agent.listening import HttpServer, listen, parse_address
        from tenure.ui.app import Page, Site
    except ModuleNotFoundError as error:
        raise UsageError(
            f"tenure ui needs the Python package {error.name!r}, which is not installed", fix=how_to_install("ui")
        ) from error
    host, _ = parse_address(bind, flag="--bind")
    access = access_of(
        host, None if token_file is None else read_token(token_file), allow_host or (), is_public=read_only_public
    )
    store, clock = settings.required("store"), SystemClock()
    scope_store(settings, clock=clock).close()  # raises for a URL that cannot be used; no I/O
    client = StoreClient(partial(scope_store, settings, clock=clock, existing=True))
    listening = listen(bind, flag="--bind")
    page = Page(Site(client, clock, access, masked_url(store)))
    stop = threading.Event()
    server = HttpServer(page.asgi, listening, name="tenure-ui")
    say(f"tenure: the page is at http://{_shown(host)}:{server.port}/")
    with stop_on_signals(stop, clock=SystemClock()) as signalled:
        try:
            stop.wait()
        finally:
            page.close()
            server.close()
    if signal.SIGINT in signalled:
        raise typer.Exit(130)


def access_of(host: str, token: str | None, names: list[str] | tuple[str, ...], *, is_public: bool) -> Access:
    """Who may read and act at an address to listen at. Raises UsageError: others reach it, and nothing says who may."""
    if not is_loopback(host) and token is None and not is_public:
        raise UsageError(
            f"--bind {host or 'all addresses'} is reached by others",
            fix="give --token-file FILE, so that only operators read; or --read-only-public, so that everybody may",
        )
    own = {socket.gethostname(), socket.getfqdn(), host, *names}
    hosts = frozenset(name.lower().rstrip(".") for name in own if name)
    return Access(token, hosts, reads_openly=is_public or is_loopback(host))


def read_token(path: Path) -> str:
    """The token in a file, without the blanks and line ends around it. Raises UsageError."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"--token-file {str(path)!r} cannot be read: {why}", fix="name a file with a token") from error
    if len(token) < TOKEN_LEAST or any(character.isspace() for character in token):
        raise UsageError(
            f"--token-file {str(path)!r} has no token of {TOKEN_LEAST} characters or more",
            fix="make one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return token


def _shown(host: str) -> str:
    if host in ("", "0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
