"""The variables and profiles of AWS, as each of the three clients of S3 gets them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tenure import s3_settings
from tenure.errors import UsageError
from tenure.s3_settings import S3Settings
from tenure.storage.engines import delta_options, needs_of

SERVER = "http://h:9000"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without settings, and no variables of AWS."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("variables", "settings"),
    [
        ({}, S3Settings()),
        ({"AWS_REGION": "eu-west-1"}, S3Settings(region="eu-west-1")),
        ({"AWS_DEFAULT_REGION": "eu-west-1"}, S3Settings(region="eu-west-1")),
        ({"AWS_DEFAULT_REGION": "us-west-1", "AWS_REGION": "eu-west-1"}, S3Settings(region="eu-west-1")),
        ({"AWS_ENDPOINT_URL": f"{SERVER}/"}, S3Settings(SERVER, "us-east-1", path_style=True)),
        (
            {"AWS_ENDPOINT_URL": "http://other", "AWS_ENDPOINT_URL_S3": SERVER, "AWS_REGION": "x"},
            S3Settings(SERVER, "x", path_style=True),
        ),
        (
            {"AWS_ENDPOINT_URL": SERVER, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"},
            S3Settings(SERVER, "us-east-1", path_style=False),
        ),
        (
            {"AWS_ENDPOINT_URL": "https://bucket.vpce-1.s3.eu-west-1.vpce.amazonaws.com"},
            S3Settings("https://bucket.vpce-1.s3.eu-west-1.vpce.amazonaws.com", None, path_style=True),
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("botocore", [True, False], ids=["botocore", "without"])
def test_variables(
    variables: Mapping[str, str], settings: S3Settings, botocore: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not botocore:
        monkeypatch.setattr(s3_settings, "find_spec", lambda name: None)
    s3_settings._read.cache_clear()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert S3Settings.read() == settings


def test_a_profile_counts_where_no_variable_does(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".aws" / "config").write_text(
        f"[profile ours]\nregion = eu-north-1\nservices = own\ns3 =\n  addressing_style = virtual\n"
        f"[services own]\ns3 =\n  endpoint_url = {SERVER}\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "ours")
    assert S3Settings.read() == S3Settings(SERVER, "eu-north-1", path_style=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://g")
    monkeypatch.setenv("AWS_REGION", "here")
    assert S3Settings.read() == S3Settings("https://g", "here", path_style=False)


@pytest.mark.parametrize(
    ("variable", "value", "line"),
    [
        (
            "AWS_PROFILE",
            "nobody",
            r"the settings of AWS cannot be used: .*nobody.*; see AWS_\* and the files in ~/.aws",
        ),
        ("AWS_ENDPOINT_URL", "h:9000", "the settings of AWS cannot be used: Invalid endpoint: h:9000; see .*"),
    ],
)
def test_what_cannot_be_used_is_one_line(variable: str, value: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=line):
        S3Settings.read()


def test_all_clients_get_the_same_server_and_none_gets_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"AWS_ACCESS_KEY_ID": "the-key", "AWS_SECRET_ACCESS_KEY": "the-secret", "AWS_SESSION_TOKEN": "the-token"}
    for name, value in {**secrets, "AWS_ENDPOINT_URL": SERVER, "AWS_REGION": "r"}.items():
        monkeypatch.setenv(name, value)
    settings = S3Settings.read()
    spark, client, delta = settings.for_hadoop(), settings.for_client({}), delta_options("s3a://b/t", {})
    assert spark["fs.s3a.endpoint"] == client["endpoint_url"] == delta["AWS_ENDPOINT_URL"] == SERVER
    assert spark["fs.s3a.endpoint.region"] == client["client_kwargs"]["region_name"] == delta["AWS_REGION"] == "r"
    assert spark["fs.s3a.path.style.access"] == "true"
    assert client["config_kwargs"] == {"s3": {"addressing_style": "path"}}
    assert delta["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] == "false"
    assert (spark["fs.s3a.connection.ssl.enabled"], delta["AWS_ALLOW_HTTP"]) == ("false", "true")
    shown = f"{spark} {client} {delta} {settings}"
    assert not [secret for secret in secrets.values() if secret in shown]


def test_without_an_endpoint_each_client_goes_to_aws_by_itself() -> None:
    settings = S3Settings()
    assert {name for name in settings.for_hadoop() if "endpoint" in name or "style" in name} == set()
    assert settings.for_client({}) == {}
    assert settings.for_delta("b", {}) == {}


def test_what_the_user_gave_to_a_client_goes_before_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = S3Settings(SERVER, "r", path_style=True)
    mine = {"endpoint": "https://mine", "AWS_DEFAULT_REGION": "m"}
    delta = settings.for_delta("b", mine)
    assert {name: value for name, value in delta.items() if "ENDPOINT" in name or "REGION" in name} == {
        "AWS_DEFAULT_REGION": "m"
    }
    assert delta["endpoint"] == "https://mine"
    config = {
        "config_kwargs": {"connect_timeout": 2, "s3": {"addressing_style": "auto"}},
        "endpoint_url": "https://mine",
    }
    assert settings.for_client(config) == {
        "config_kwargs": {"connect_timeout": 2, "s3": {"addressing_style": "auto"}},
        "client_kwargs": {"region_name": "r"},
    }
    monkeypatch.setenv("AWS_ALLOW_HTTP", "false")
    assert "AWS_ALLOW_HTTP" not in settings.for_delta("b", {})


def test_delta_rs_wants_the_bucket_in_the_name_of_a_host() -> None:
    options = S3Settings("https://h:9000", "r", path_style=False).for_delta("b", {})
    assert options["AWS_ENDPOINT_URL"] == "https://b.h:9000"
    assert options["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] == "true"


def test_other_storages_have_no_such_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", SERVER)
    for url in ("/srv/t", "file:///srv/t", "hdfs://h/t", "gs://b/t"):
        assert needs_of(url) is None
        assert delta_options(url, {"a": "b"}) == {"a": "b"}
    for url in ("s3://b/t", "s3a://b/t", "s3n://b/t"):
        needs = needs_of(url)
        assert needs is not None
        assert (needs.scheme, needs.connector) == ("s3a", "s3")


def test_a_hadoop_with_the_first_sdk_needs_its_classes() -> None:
    needs = needs_of("s3a://b/t")
    assert needs is not None
    assert all(name.startswith("com.amazonaws.") for name in needs.classes[1])
    providers = S3Settings().for_hadoop(aws_sdk=1)["fs.s3a.aws.credentials.provider"].split(",")
    assert [name for name in providers if "awssdk" in name] == []
    assert providers[-1] == "com.amazonaws.auth.DefaultAWSCredentialsProviderChain"
