"""`tenure config show`: where each setting comes from, what is hidden, and what members announce."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.support import Place, tenure
from tests.cli.test_verbs import TTL, Actor
from tests.kit.waiting import wait_until

TOML = """
store = "zookeeper://anna:hush1@h1:2181/tenure"
ttl = "7s"
connector = ["s3", "delta"]

[conf]
"spark.a" = "file"
"spark.b" = "file"
"spark.hadoop.fs.s3a.secret.key" = "hush2"
"""


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tenure.toml").write_text(TOML)
    for name, value in {"PRIORITY": "3", "TTL": "8s", "STORE_PASSWORD": "hush3"}.items():
        monkeypatch.setenv(f"TENURE_{name}", value)
    return tmp_path / "tenure.toml"


def shown(*words: str) -> dict[str, tuple[Any, str]]:
    told = tenure("config", "show", *words, "-o", "json")
    assert told.code == 0, told.err
    assert "hush" not in told.out + told.err
    return {row["setting"]: (row["value"], row["source"]) for row in told.json["settings"]}


@pytest.mark.filterwarnings("ignore::tenure.settings.PasswordInUrl")
def test_each_setting_has_its_source(configured: Path) -> None:
    found = shown("--ttl", "9s", "--conf", "spark.a=flag", "--param", "api_token=hush4")
    file = str(configured)
    assert found["ttl"] == ("9s", "--ttl")
    assert found["priority"] == (3, "TENURE_PRIORITY")
    assert found["connector"] == ("s3, delta", file)
    assert found["conf.spark.a"] == ("flag", "--conf")
    assert found["conf.spark.b"] == ("file", file)
    assert found["driver_silence"] == ("60s", "default")
    assert found["member"] == (None, "default")


@pytest.mark.filterwarnings("ignore::tenure.settings.PasswordInUrl")
def test_secrets_are_hidden(configured: Path) -> None:
    found = shown("--param", "api_token=hush4", "--param", "target=postgres://u:hush5@h/d")
    assert found["store"][0] == "zookeeper://anna:***@h1:2181/tenure"
    assert found["store_password"] == ("***", "TENURE_STORE_PASSWORD")
    assert found["conf.spark.hadoop.fs.s3a.secret.key"][0] == "***"
    assert found["params.api_token"] == ("***", "--param")
    assert found["params.target"][0] == "postgres://u:***@h/d"


@pytest.mark.filterwarnings("ignore::tenure.settings.PasswordInUrl")
def test_the_variable_goes_before_the_file(configured: Path) -> None:
    assert shown()["ttl"] == ("8s", "TENURE_TTL")


def test_the_members_of_a_scope_as_they_announced(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    place.make_store()
    scope = ("--store", f"sqlite://{place.store}", "--scope", "rows")
    with Actor(place, "anna"):
        wait_until(lambda: place.look("list"))
        told = tenure("config", "show", *scope, "-o", "yaml")
        table = tenure("config", "show", *scope)
    (anna,) = yaml.safe_load(told.out)["members"]
    assert (anna["member"], anna["version"], anna["ttl_s"]) == ("anna", version("tenure"), TTL.total_seconds())
    assert "members of rows, as they announced" in table.err


def test_a_store_that_is_away_is_a_warning(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    told = tenure("config", "show", "--store", f"sqlite://{place.store}", "--scope", "rows")
    assert told.code == 0
    assert "tenure: warning: the members are not known: store " in told.err
