"""Typed settings: flags > environment TENURE_* > tenure.toml > defaults.

Promise: an unusable value is a UsageError that names the setting, the value and the fix in one line.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from tenure.checkpoints.store import KEPT
from tenure.coordination.store_url import NAME_A_USER, with_password
from tenure.durations import parse_duration
from tenure.errors import UsageError
from tenure.retry import RetryPolicy, exponential_delay, fixed_delay, no_retry
from tenure.wording import has_password, masked_url


def _at_least_half_a_second(value: object) -> timedelta:
    ttl = parse_duration(value)
    if ttl < timedelta(milliseconds=500):
        raise ValueError("it is at least 500ms")
    return ttl


def _above_zero(value: object) -> timedelta:
    delay = parse_duration(value)
    if delay <= timedelta(0):
        raise ValueError("it is more than 0s")
    return delay


Delay = Annotated[timedelta, BeforeValidator(_above_zero)]
Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Ttl = Annotated[timedelta, BeforeValidator(_at_least_half_a_second)]


class Settings(BaseSettings):
    """All settings of a run. `None`: not set. The first line below a field is the help of its flag."""

    model_config = SettingsConfigDict(
        env_prefix="TENURE_", toml_file="tenure.toml", extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    store: str | None = None
    """URL of the coordination store: sqlite:///path"""
    store_password: str | None = Field(default=None, repr=False)
    """The password of the user in the URL of the store. It goes before `store_password_file`."""
    store_password_file: str | None = None
    """File with the password of the user in the URL of the store. Line ends around it do not count."""
    storage: str | None = None
    """URL of the storage: file:///path, s3://...
    Every member reaches it."""
    scope: str | None = None
    """The pipeline's scope (by default its name)."""
    member: str | None = None
    """This member's name.
    By default host, process id and a random part."""
    ttl: Ttl = timedelta(seconds=10)
    """How long a leader may be silent: 5s, 500ms.
    Then its session ends."""
    stop_patience: Duration = timedelta(seconds=20)
    """How long queries may take to stop.
    Then the driver is killed. The default fits into the 30 s that orchestrators
    leave between SIGTERM and SIGKILL."""
    driver_silence: Duration = timedelta(seconds=60)
    """How long a running driver may be silent before it is killed."""
    on_store_loss: Literal["hold", "stop"] = "hold"
    """hold: go on until the deadline, wait. Or stop.
    `stop` stops the queries at the first failed renewal, and ends with exit code 4."""
    standby: Literal["warm", "cold"] = "warm"
    """warm: rehearse while standing by. Or cold.
    A `cold` standby saves memory and processor time."""
    priority: int = Field(default=0, ge=-1000, le=1000)
    """Standbys with a higher priority are elected first.
    Only standbys that can take over count."""
    nofailover: bool = False
    """Never lead.
    The member rehearses, and answers probes."""
    batch_attempts: int = Field(default=5, ge=1, le=1000)
    """How often a batch may fail by the same error before the scope is paused.
    The attempts of all members count. A run with `--until-idle` or `--final` then ends with exit code 8."""
    away_limit: Delay | None = None
    """How long a source, sink or storage may be away before the member ends: 2h.
    By default the member waits for ever."""
    checkpoints_kept: int = Field(default=KEPT, ge=1, le=1000)
    """The number of checkpoints kept for each query."""
    cleanup_retry: Literal["exponential-delay", "fixed-delay", "none"] = "exponential-delay"
    """When a cleanup tries again: after delays that double, after equal delays, or never."""
    cleanup_delay: Delay = timedelta(seconds=1)
    """The first delay of a cleanup; with `fixed-delay`, every delay."""
    cleanup_delay_maximum: Delay = timedelta(hours=1)
    """The longest delay of a cleanup."""
    cleanup_attempts: int | None = Field(default=None, ge=1)
    """How often a cleanup is tried before it gives up; by default without end."""
    inline_limit: int = Field(default=4096, ge=0, le=65536)
    """Payloads up to this many bytes stay in the store's records."""
    master: str | None = None
    """Spark's master."""
    conf: dict[str, str] = Field(default_factory=dict)
    """spark.x=y for Spark; may be repeated."""
    connector: list[str] = Field(default_factory=list)
    """kafka, s3, delta, iceberg: packages for Spark, by name; repeatable.
    Their versions are those that were tested with your Spark."""
    packages: str | None = None
    """As spark-submit's: Maven coordinates, with commas."""
    jars: str | None = None
    """As spark-submit's: jars, with commas."""
    py_files: str | None = None
    """As spark-submit's: .py, .zip, .egg, with commas.
    The pipeline and its functions import them."""
    submit: str | None = None
    """Other flags for spark-submit, as one text: '--driver-memory 2g --files a.conf'."""
    params: dict[str, str] = Field(default_factory=dict)
    """NAME=VALUE for the pipeline; may be repeated."""
    new_stream: list[str] = Field(default_factory=list)
    """A stream that may begin though a recorded stream is gone; repeatable.
    It begins at the start of its sources."""
    drop_stream: list[str] = Field(default_factory=list)
    """A recorded stream that this file no longer declares; repeatable."""
    changed_query: list[str] = Field(default_factory=list)
    """A query that may go on with its old state though it changed; repeatable."""
    changed_source: list[str] = Field(default_factory=list)
    """A query that may go on though it reads other sources; repeatable.
    It goes on from its present positions."""
    changed_zone: bool = False
    """The queries may go on in another time zone."""
    short_batch: list[str] = Field(default_factory=list)
    """A query that may run a batch again without its lost records; repeatable.
    Kafka has these records no more."""
    http: str | None = None
    """HOST:PORT for probes and metrics."""
    spark_log: str | None = None
    """File for the output of Spark's JVM."""
    event_log: str | None = None
    """File for events, one JSON object a line."""
    event_log_bytes: int = Field(default=64 * 1024 * 1024, ge=0)
    """The size at which the event log is renamed to `.1`, and a new file begins; 0: never. Three renamed files stay."""
    log_format: Literal["text", "json"] = "text"
    """text, or json: each line on stderr is a JSON object."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, then the environment, then tenure.toml."""
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls))

    def to_data(self) -> dict[str, Any]:
        """All settings as plain data for `from_data`. Passwords are included."""
        return {
            name: f"{value.total_seconds():f}s" if isinstance(value, timedelta) else value
            for name, value in self.model_dump().items()
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Settings:
        """The settings of `to_data`. Neither the environment nor a file adds to them."""
        return cls(**data)

    def cleanup_policy(self) -> RetryPolicy:
        """The retry policy of a cleanup (after Flink's cleanup-strategy, FLIP-270)."""
        match self.cleanup_retry:
            case "none":
                return no_retry()
            case "fixed-delay":
                return fixed_delay(delay=self.cleanup_delay, attempts=self.cleanup_attempts)
            case "exponential-delay":
                return exponential_delay(
                    initial=self.cleanup_delay, maximum=self.cleanup_delay_maximum, attempts=self.cleanup_attempts
                )

    def store_url(self) -> str:
        """The URL of the store, with the password of its user. Raises UsageError."""
        url, password = self.required("store"), self.store_password
        if password is None and self.store_password_file is not None:
            try:
                password = Path(self.store_password_file).read_text(encoding="utf-8").strip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(
                    f"store_password_file {self.store_password_file!r} cannot be read: {error}", fix="check the path"
                ) from error
        return url if password is None else with_password(url, password)

    def required(self, name: str) -> str:
        """The value of a setting that the command needs. Raises UsageError: it is not set."""
        value = getattr(self, name)
        if not value:
            raise UsageError(
                f"no {name} is set", fix=f"give --{name}, set TENURE_{name.upper()}, or write it in tenure.toml"
            )
        return str(value)


def sources_of() -> dict[str, dict[str, str]]:
    """Setting -> name of an item of `params` or `conf`, for others empty -> the file or the variable that has its
    value. A default has no entry. To be asked after `load_settings`, which raises for what cannot be read."""
    found: dict[str, dict[str, str]] = {}
    for source, place in ((TomlConfigSettingsSource, os.path.abspath("tenure.toml")), (EnvSettingsSource, "")):
        for name, value in source(Settings)().items():
            items = value if isinstance(value, dict) else {"": value}
            found.setdefault(name, {}).update(dict.fromkeys(items, place or f"TENURE_{name.upper()}"))
    return found


OF_STORE: Final = "TENURE_STORE"
OF_STORE_PASSWORD: Final = "TENURE_STORE_PASSWORD"
"""The variables that may have the password of the store."""


class PasswordInUrl(UserWarning):
    """A password stands in a URL, which others can read."""


def load_settings(**flags: Any) -> Settings:
    """The settings, with the flags that are not None. Warns (`PasswordInUrl`) of a store URL with a password. Raises
    UsageError."""
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        settings = Settings(**given)
        if settings.store is not None and has_password(settings.store):
            shown = f"store URL {masked_url(settings.store)!r} has a password, which lists of processes show"
            warnings.warn(f"{shown}; {NAME_A_USER}", PasswordInUrl, stacklevel=3)
        return settings
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "?"
        if first["type"] == "extra_forbidden":
            near = get_close_matches(name, Settings.model_fields, n=1)
            fix = f"did you mean {near[0]!r}?" if near else "see the page Settings of the documentation"
            raise UsageError(f"there is no setting {name!r}", fix=fix) from error
        message = first["msg"].removeprefix("Value error, ")
        value = "what is given" if "password" in name else repr(first.get("input"))
        raise UsageError(f"setting {name!r} cannot be {value}", fix=message) from error
    except (SettingsError, OSError, ValueError) as error:
        raise UsageError(f"settings in {os.path.abspath('tenure.toml')} or TENURE_* cannot be read: {error}") from error
