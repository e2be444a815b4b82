"""Connectors by name: which packages spark-submit gets, beside those of the user."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark
import pytest

from tenure.errors import UsageError
from tenure.spark import connectors
from tenure.spark.connectors import (
    EXTENSIONS,
    NAMES,
    connectors_of,
    missing_connector,
    module_of,
    settings_beside,
    with_connectors,
)
from tenure.spark.coordinates import OF_RELEASE, Connector, Lacking
from tenure.spark.installed import InstalledSpark, find_spark
from tenure.spark.submit import Submit, read_submit

HERE = find_spark()
KAFKA = f"org.apache.spark:spark-sql-kafka-0-10_{HERE.scala}"
CLIENT = "org.apache.hadoop:hadoop-client-api"


def lists(**given: object) -> dict[str, list[str]]:
    """The two lists of packages that spark-submit gets."""
    flags = read_submit(**{"text": None, "conf": {}, **given}).flags  # type: ignore[arg-type] # a test's own calls
    found = {flag: (value or "").split(",") for flag, value in flags if flag in ("--packages", "--exclude-packages")}
    assert len(found) == len([flag for flag, _ in flags if flag in found]), "no flag comes twice"
    return found


def spark(version: str, scala: str = "2.13") -> InstalledSpark:
    return InstalledSpark(Path("/opt/spark"), version, scala)


def here() -> dict[str, Connector]:
    """The connectors of the installed Spark."""
    return {name: one for name, one in OF_RELEASE[HERE.release, HERE.scala].items() if isinstance(one, Connector)}


@pytest.mark.parametrize("name", here())
def test_a_name_stands_for_coordinates(name: str) -> None:
    (tested,) = connectors_of([name])
    found = {"--packages": list(tested.packages), "--exclude-packages": list(tested.excluded)}
    assert lists(connectors=[name]) == {flag: given for flag, given in found.items() if given}


def test_a_list_without_a_package_is_no_flag() -> None:
    """spark-submit takes an empty list for a package without a name."""
    (iceberg,) = connectors_of(["iceberg"], spark("4.1.0"))
    assert iceberg.excluded == ()
    assert with_connectors([], [], [iceberg]) == [("--packages", iceberg.packages[0])]


def test_the_version_of_scala_is_that_of_the_spark() -> None:
    for scala in ("2.12", "2.13"):
        found = connectors_of(["kafka", "delta", "iceberg"], spark("3.5.6-amzn-2", scala))
        assert all(f"_{scala}:" in one for connector in found for one in connector.packages)


@pytest.mark.parametrize(("release", "scala"), OF_RELEASE, ids=" ".join)
def test_a_package_for_one_release_is_of_that_release(release: str, scala: str) -> None:
    """Names with a release in them: of Spark's own connector by its version, of tables by the name."""
    packages = {
        name: known.packages[0] for name, known in OF_RELEASE[release, scala].items() if isinstance(known, Connector)
    }
    assert packages["kafka"].startswith(f"org.apache.spark:spark-sql-kafka-0-10_{scala}:")
    assert release == "4.3" or f":{release}." in packages["kafka"], "there is none for 4.3"
    names = ("" if release == "3.5" else f"_{release}", release)
    assert (
        packages.get("delta", f"delta-spark{names[0]}_{scala}:")
        .removeprefix("io.delta:")
        .startswith(f"delta-spark{names[0]}_{scala}:")
    )
    assert f"iceberg-spark-runtime-{release}_{scala}:" in packages.get(
        "iceberg", f"iceberg-spark-runtime-{names[1]}_{scala}:"
    )


def test_each_coordinate_is_whole() -> None:
    whole = re.compile(r"[\w.-]+:[\w.-]+:\d[\w.-]*")
    for known in OF_RELEASE.values():
        for connector in known.values():
            if isinstance(connector, Connector):
                assert all(whole.fullmatch(one) for one in connector.packages)
                assert not {module_of(one) for one in connector.packages} & set(connector.excluded)


def test_several_names_are_one_list_and_no_name_is_none() -> None:
    found = lists(connectors=["s3", "kafka", "s3"])
    assert sorted(found["--packages"]) == sorted(
        {one for connector in connectors_of(["kafka", "s3"]) for one in connector.packages}
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
    for name in here():
        (tested,) = connectors_of([name])
        excluded = {module_of(one).split(":")[1] for one in tested.excluded}
        other = {
            "bundle",
            "aws-java-sdk-bundle",
            "shims",
            "wildfly-openssl",
            "commons-logging",
            "netty-codec",
        }  # unneeded; netty 4.2 splits its codec
        assert excluded - other <= jars, name
        assert not {one.split(":")[1] for one in tested.packages} & jars, name


def test_the_package_for_s3_is_of_the_hadoop_in_spark() -> None:
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    hadoop = jar.stem.removeprefix("hadoop-client-api-")
    (tested,) = connectors_of(["s3"])
    assert f"org.apache.hadoop:hadoop-aws:{hadoop}" in tested.packages


@pytest.mark.parametrize("version", ["3.5.0", "3.5.6-amzn-2", "4.0.1", "4.3.0", "4.3.7", "4.2.1", "4.3.0-amzn-1"])
def test_the_minor_version_decides(version: str) -> None:
    (found,) = connectors_of(["kafka"], spark(version))
    assert found == OF_RELEASE[version[:3], "2.13"]["kafka"]


def test_an_unknown_name_and_an_untested_spark_are_one_line() -> None:
    with pytest.raises(UsageError) as unknown:
        read_submit(None, connectors=["kafak"], conf={})
    assert str(unknown.value) == ("there is no connector 'kafak'; known: kafka, s3, delta, iceberg; or use --packages")
    with pytest.raises(UsageError) as untested:
        connectors_of(["kafka"], spark("5.0.0"))
    assert str(untested.value) == (
        "connector 'kafka' was not tested with Spark 5.0.0 and Scala 2.13; it was with 3.5, 4.0, 4.1, 4.2, 4.3; "
        "or name the packages for your Spark with --packages"
    )


def test_a_release_without_a_connector_says_so_and_how_to_go_on() -> None:
    lacking = [
        (release, name)
        for (release, _), known in OF_RELEASE.items()
        for name in NAMES
        if isinstance(known[name], Lacking)
    ]
    assert lacking == [("4.2", "iceberg"), ("4.3", "delta"), ("4.3", "iceberg")]
    with pytest.raises(UsageError) as refused:
        connectors_of(["kafka", "delta"], spark("4.3.0"))
    assert str(refused.value) == (
        "there is no connector 'delta' for Spark 4.3.0: Delta Lake has no release for it; run Spark 4.2, or read the "
        "table without Spark; the sink Delta of Tenure needs no connector"
    )
    for release, name in lacking:
        with pytest.raises(UsageError, match=rf"^there is no connector '{name}' for Spark {release}\.1: .*; run Spark"):
            connectors_of([name], spark(f"{release}.1"))


DELTA = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "spark.sql.catalog.spark_catalog"


def test_a_connector_of_tables_sets_its_extension_and_its_catalog() -> None:
    delta, iceberg = connectors_of(["delta", "iceberg"], spark("4.1.0"))
    assert settings_beside(lambda name: None, [delta]) == {
        EXTENSIONS: DELTA,
        CATALOG: "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    both = settings_beside(lambda name: None, [iceberg, delta])[EXTENSIONS].split(",")
    assert both == [*iceberg.extensions, DELTA]
    assert settings_beside(lambda name: None, connectors_of(["kafka", "s3"], spark("4.1.0"))) == {}


def test_settings_of_the_users_own_stay() -> None:
    connectors = connectors_of(["delta"], spark("4.1.0"))
    mine = {EXTENSIONS: "org.me.Mine, org.me.Other", CATALOG: "org.me.Catalog"}
    assert settings_beside(mine.get, connectors) == {EXTENSIONS: f"org.me.Mine,org.me.Other,{DELTA}"}
    assert settings_beside({EXTENSIONS: f"org.me.Mine,{DELTA}", CATALOG: "x"}.get, connectors) == {}


def test_the_session_gets_the_settings_with_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connectors, "find_spark", lambda: spark("3.5.9", "2.12"))
    submitted = read_submit(None, connectors=["delta", "delta"], conf={})
    assert submitted.connectors == tuple(connectors_of(["delta"]))
    assert ("--packages", ",".join(submitted.connectors[0].packages)) in submitted.flags
    assert read_submit(None, conf={}) == Submit()


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
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. Make sure the provider name is", "delta"),
        (
            "[INTERNAL] Cannot find catalog plugin class for catalog 'spark_catalog': "
            "org.apache.spark.sql.delta.catalog.DeltaCatalog.",
            "delta",
        ),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: iceberg. Please find packages at", "iceberg"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: deltas. Make sure the provider name is", None),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafkas. Make sure the provider name is", None),
        ('org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "gs"', None),
        ("org.apache.hadoop.fs.s3a.AWSBadRequestException: getFileStatus on s3a://b/x", None),
    ],
)
def test_an_error_of_spark_names_the_connector_that_is_missing(error: str, name: str | None) -> None:
    fix = None if name is None else f"give --connector {name}, or the jars that Spark needs"
    assert missing_connector(error) == fix
