"""S3 in Spark, delta-rs and s3fs, all by one profile of AWS, on a real server: the same place, with the same keys."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import s3fs
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tenure.events import Events
from tenure.sinks import Batch, Delta
from tenure.spark.hadoop import check_classes, prepare_file_systems
from tenure.spark.session import start_session
from tenure.spark.submit import read_submit
from tenure.storage.reach import reach
from tests.jvm import SharedJvm
from tests.kit.servers import BUCKET, SeaweedFs, installed
from tests.kit.servers.connectors import ivy_folder
from tests.kit.servers.seaweedfs import environment

MINE = {"spark.hadoop.fs.s3a.connection.ssl.enabled": "true"}
"""A setting of the user's that differs from ours, and changes nothing here: the endpoint has its scheme."""


def profile(server: SeaweedFs, folder: Path) -> Mapping[str, str]:
    """The variables of a process that has the server and its keys in a profile only."""
    keys = environment(server.url)
    config, credentials = folder / "config", folder / "credentials"
    config.write_text(f"[profile tests]\nendpoint_url = {server.url}\nregion = {keys['AWS_DEFAULT_REGION']}\n")
    lines = [f"{name.lower()} = {keys[name]}" for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]
    credentials.write_text("\n".join(["[tests]", *lines, ""]))
    return {
        "AWS_PROFILE": "tests",
        "AWS_CONFIG_FILE": str(config),
        "AWS_SHARED_CREDENTIALS_FILE": str(credentials),
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.fixture(scope="module")
def spark(jvm: SharedJvm, seaweedfs: SeaweedFs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("profile")
    with installed():
        conf = {"spark.jars.ivy": str(ivy_folder()), **MINE}
    submit = read_submit(None, connectors=["s3"], conf=conf)
    log = str(folder / "spark.log")

    def start() -> SparkSession:
        return start_session(name="hadoop", master="local[1]", conf=conf, submit=submit, log=log)

    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in profile(seaweedfs, folder).items():
            patch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        with jvm.lent(start) as session:
            prepare_file_systems(session)
            yield session
        jvm.end()  # its class path is no other module's
        s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def root(spark: SparkSession) -> str:
    return f"s3://{BUCKET}/{os.urandom(6).hex()}"


def test_spark_writes_where_the_storage_reads_in_either_spelling(spark: SparkSession, root: str) -> None:
    check_classes(spark, root, what="the storage")
    spark.range(3).coalesce(1).write.parquet(f"{root}/one")
    spark.range(4).coalesce(1).write.parquet(f"{root.replace('s3:', 's3a:')}/two")
    names = [entry.name for folder in ("one", "two") for entry in reach(f"{root}/{folder}").entries()]
    assert len([name for name in names if name.endswith(".parquet")]) == 2
    assert spark.read.parquet(f"{root.replace('s3:', 's3a:')}/one").count() == 3
    assert spark.read.parquet(f"{root}/two").count() == 4


def test_spark_stages_and_delta_rs_commits_to_one_table(spark: SparkSession, root: str) -> None:
    sink = Delta(f"{root}/table")
    sink.check(output_mode="append")
    batch = Batch("scope", "query", "id", id=0, epoch=1)
    sink.write(spark.range(5).coalesce(1), batch, planned=lambda: None, events=Events.nobody)
    spelled = Delta(f"{root.replace('s3:', 's3a:')}/table")
    spelled.check(output_mode="append")
    again = spelled.write(spark.range(5).coalesce(1), batch, planned=lambda: None, events=Events.nobody)
    assert again.repeated, "the two spellings are one table"
    assert DeltaTable(sink.location, storage_options=sink._options).to_pyarrow_table().num_rows == 5


def test_a_setting_of_the_users_stays_and_no_key_is_in_spark(spark: SparkSession, seaweedfs: SeaweedFs) -> None:
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    assert settings.get("fs.s3a.connection.ssl.enabled") == "true"
    assert settings.get("fs.s3a.endpoint") == seaweedfs.url
    assert settings.get("fs.s3a.secret.key") is None
    secret = environment(seaweedfs.url)["AWS_SECRET_ACCESS_KEY"]
    assert secret not in str(dict(spark.sparkContext.getConf().getAll()))
