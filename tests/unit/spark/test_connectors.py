"""Connectors by name: which packages spark-submit gets, beside those of the user."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark
import pytest

from tenure.errors import UsageError
from tenure.spark import connectors
from tenure.spark.connectors import CONNECTORS, connectors_of, missing_connector, module_of, spark_version
from tenure.spark.submit import read_submit

KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13"
CLIENT = "org.apache.hadoop:hadoop-client-api"


def lists(**given: object) -> dict[str, list[str]]:
    """The two lists of packages that spark-submit gets."""
    flags = read_submit(**{"text": None, "conf": {}, **given}).flags  # type: ignore[arg-type] # a test's own calls
    found = {flag: (value or "").split(",") for flag, value in flags if flag in ("--packages", "--exclude-packages")}
    assert len(found) == len([flag for flag, _ in flags if flag in found]), "no flag comes twice"
    return found


@pytest.mark.parametrize("name", CONNECTORS)
def test_a_name_stands_for_coordinates(name: str) -> None:
    tested = CONNECTORS[name]["4.3"]
    assert lists(connectors=[name]) == {
        "--packages": list(tested.packages),
        "--exclude-packages": list(tested.excluded),
    }


def test_several_names_are_one_list_and_no_name_is_none() -> None:
    found = lists(connectors=["s3", "kafka", "s3"])
    assert sorted(found["--packages"]) == sorted(
        {one for name in CONNECTORS for one in CONNECTORS[name]["4.3"].packages}
    )
    assert len(found["--exclude-packages"]) == len(set(found["--exclude-packages"]))
    assert lists(packages="g:a:1") == {"--packages": ["g:a:1"]}
    assert lists() == {}


@pytest.mark.parametrize(
    "given",
    [
        {"packages": "g:a:1, g:b:2", "text": "--exclude-packages g:c"},
        {"text": "--packages g:a:1,g:b:2 --exclude-packages=g:c"},
        {"text": "--conf spark.jars.packages=g:a:1,g:b:2 -c spark.jars.excludes=g:c"},
        {"conf": {"spark.jars.packages": "g:a:1,g:b:2", "spark.jars.excludes": "g:c"}},
        {"packages": "g:a:1", "conf": {"spark.jars.packages": "g:b:2", "spark.jars.excludes": "g:c"}},
    ],
    ids=str,
)
def test_packages_of_the_users_own_stay_wherever_they_stand(given: dict[str, object]) -> None:
    found = lists(connectors=["kafka"], **given)
    assert found["--packages"][:2] == ["g:a:1", "g:b:2"]
    assert KAFKA in {module_of(one) for one in found["--packages"]}
    assert {"g:c", CLIENT} <= set(found["--exclude-packages"])


def test_a_package_of_the_users_own_goes_before_that_of_a_connector() -> None:
    found = lists(connectors=["kafka", "s3"], packages=f"{KAFKA}:4.9.9,software.amazon.awssdk/bundle:2.99.0")
    assert [one for one in found["--packages"] if one.startswith(KAFKA)] == [f"{KAFKA}:4.9.9"]
    assert "software.amazon.awssdk:bundle" not in found["--exclude-packages"]
    assert CLIENT in found["--exclude-packages"]


def test_no_connector_fetches_a_jar_that_spark_has() -> None:
    jars = {re.sub(r"-\d.*", "", jar.stem) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    for name, tested in CONNECTORS.items():
        excluded = {module_of(one).split(":")[1] for one in tested["4.3"].excluded}
        other = {"bundle", "wildfly-openssl", "commons-logging", "netty-codec"}  # unneeded; netty 4.2 splits its codec
        assert excluded - other <= jars, name
        assert not {one.split(":")[1] for one in tested["4.3"].packages} & jars, name


def test_the_package_for_s3_is_of_the_hadoop_in_spark() -> None:
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    hadoop = jar.stem.removeprefix("hadoop-client-api-")
    minor = ".".join(spark_version().split(".")[:2])
    assert f"org.apache.hadoop:hadoop-aws:{hadoop}" in CONNECTORS["s3"][minor].packages


@pytest.mark.parametrize("version", ["4.3.0", "4.3.7", "4.2.1", "4.3.0-amzn-1"])
def test_the_minor_version_decides(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connectors, "spark_version", lambda: version)
    assert connectors_of(["kafka"]) == [CONNECTORS["kafka"][version[:3]]]


def test_an_unknown_name_and_an_untested_spark_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError) as unknown:
        read_submit(None, connectors=["kafak"], conf={})
    assert str(unknown.value) == "there is no connector 'kafak'; known: kafka, s3; or use --packages"
    monkeypatch.setattr(connectors, "spark_version", lambda: "5.0.0")
    with pytest.raises(UsageError) as untested:
        read_submit(None, connectors=["kafka"], conf={})
    assert str(untested.value) == (
        "connector 'kafka' was not tested with Spark 5.0.0; it was with 4.2, 4.3; "
        "or name the packages for your Spark with --packages"
    )


def test_the_version_of_spark_is_known_without_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spark_version() == pyspark.__version__
    monkeypatch.setattr(connectors, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"'pyspark' is not installed; run pip install '\.\[spark\]'"):
        spark_version()


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (
            "[KAFKA_DATA_SOURCE_NOT_ENABLED] Failed to find data source: kafka. Please deploy the application as",
            "kafka",
        ),
        ("java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", "s3"),
        ('org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "s3"', "s3"),
        ("java.lang.ClassNotFoundException: software.amazon.awssdk.auth.credentials.AwsCredentialsProvider", "s3"),
        ("java.lang.NoClassDefFoundError: software/amazon/awssdk/core/exception/SdkException", "s3"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafkas. Make sure the provider name is", None),
        ('org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "gs"', None),
        ("org.apache.hadoop.fs.s3a.AWSBadRequestException: getFileStatus on s3a://b/x", None),
    ],
)
def test_an_error_of_spark_names_the_connector_that_is_missing(error: str, name: str | None) -> None:
    fix = None if name is None else f"give --connector {name}, or the jars that Spark needs"
    assert missing_connector(error) == fix
