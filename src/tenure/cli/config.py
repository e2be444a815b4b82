"""`tenure config show`: the settings that a command would use, and the place that each comes from.

Promise: no value is shown whose name says that it is a secret, and no password of a URL. The store is asked only for
the members of a scope, and a store that is away is a warning. Not promised: a secret behind any other name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

import typer

from tenure.cli.options import OutputOption, flag_of, open_existing, takes_settings
from tenure.cli.output import Output, print_document, show, warn
from tenure.coordination.records import Scope
from tenure.errors import StoreUnavailable
from tenure.operate.snapshot import take_snapshot
from tenure.settings import Settings, sources_of
from tenure.wording import masked_url

config_app = typer.Typer(no_args_is_help=True, help="The effective settings, and the source of each.")

_FLAGS: Final = tuple(name for name in Settings.model_fields if name not in ("store_password", "store_password_file"))
_SECRET: Final = re.compile(
    r"secret|passw|pwd|token|access[._-]?key|account[._-]?key|api[._-]?key|credential|jaas|private", re.IGNORECASE
)
_HIDDEN: Final = "***"
_DEFAULT: Final = "default"


@config_app.command("show")
@takes_settings(*_FLAGS)
def config_show(settings: Settings, flags: Mapping[str, Any], output: OutputOption = Output.TABLE) -> None:
    """The effective settings: of flags, TENURE_*, tenure.toml and the defaults. With a store and a scope, also the
    version and the ttl of each live member. Secrets are hidden.

    Example: tenure config show --ttl 5s
    """
    sources = sources_of()
    for name, value in flags.items():
        if value is not None:
            items = value if isinstance(value, dict) else {"": value}
            sources.setdefault(name, {}).update(dict.fromkeys(items, flag_of(name)))
    rows = list(_rows(settings, sources))
    members = _members(settings)
    if output.is_data:
        print_document({"settings": rows, "members": members}, output=output)
        return
    show(rows, output=output, title="settings", columns=("setting", "value", "source"))
    if members:
        names = ("member", "version", "ttl_s", "priority", "nofailover", "http")
        show(members, output=output, title=f"members of {settings.scope}, as they announced", columns=names)


def _rows(settings: Settings, sources: Mapping[str, Mapping[str, str]]) -> Iterator[dict[str, Any]]:
    for name in Settings.model_fields:
        value, known = getattr(settings, name), sources.get(name, {})
        if not isinstance(value, dict):
            yield {"setting": name, "value": _shown(name, value), "source": known.get("", _DEFAULT)}
            continue
        for item, of_item in value.items():
            source = known.get(item, _DEFAULT)
            yield {"setting": f"{name}.{item}", "value": _shown(item, of_item), "source": source}


def _shown(name: str, value: Any) -> Any:
    """A value for people and programs."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    if _SECRET.search(name) and not name.endswith("_file"):
        return _HIDDEN
    return ", ".join(map(str, value)) or None if isinstance(value, list) else masked_url(str(value))


def _members(settings: Settings) -> list[dict[str, Any]]:
    if not settings.store or not settings.scope:
        return []
    try:
        with open_existing(settings) as store:
            found = take_snapshot(store, Scope(settings.scope)).members
    except StoreUnavailable as away:
        warn(f"the members are not known: {away}")
        return []
    names = ("member", "version", "ttl_s", "priority", "nofailover", "http")
    return [{name: getattr(one, name) for name in names} for one in found]
