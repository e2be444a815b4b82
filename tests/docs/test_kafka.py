"""The page *Kafka*, done as a reader does it, on a real broker: its pipeline, its members, with a password and without,
and the lag in `tenure status`.

Promise: nothing is put in the place of the page's own words but its addresses, its folders, the protocol (the broker of
the tests has no certificate), and an end of the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.docs.blocks import KAFKA, text_of
from tests.docs.reader import put_command, type_in, variables_of
from tests.draw import QUARTERS, only_if_drawn
from tests.kit.servers import KafkaServer, installed
from tests.kit.servers.connectors import ivy_folder
from tests.kit.servers.kafka import PASSWORDS, SCRAM

pytestmark = [pytest.mark.spark, only_if_drawn(QUARTERS[2])]

UNTIL_IDLE = "--until-idle --master local[1] --spark-log spark.log"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the reader has: the pipeline, the command, and the password in a file."""
    (tmp_path / "clicks.py").write_text(text_of(KAFKA, "python kafka"))
    (tmp_path / "kafka-password").write_text(PASSWORDS[SCRAM])
    put_command(tmp_path)
    return tmp_path


@pytest.fixture
def variables(tmp_path: Path) -> Mapping[str, str]:
    with installed():
        conf = {"spark.jars.ivy": str(ivy_folder()), "spark.sql.shuffle.partitions": "1"}
    return {**variables_of(tmp_path), "HOME": str(tmp_path), "TENURE_CONF": json.dumps(conf)}


def shown(text: str, folder: Path, kafka: KafkaServer, variables: Mapping[str, str]) -> str:
    """What a command prints."""
    replaced = {
        "localhost:9092": kafka.address,
        "localhost:9093": kafka.secured,
        "/run/secrets/kafka": str(folder / "kafka-password"),
        "SASL_SSL": "SASL_PLAINTEXT",
    }
    for old, new in replaced.items():
        text = text.replace(old, new)
    done = type_in(text, folder, variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_is_true(folder: Path, kafka: KafkaServer, variables: Mapping[str, str]) -> None:
    kafka.make_topic("clicks", partitions=2)
    kafka.send("clicks", ["a", "b", "a"])
    shown(f"{text_of(KAFKA, 'sh member')} {UNTIL_IDLE}", folder, kafka, variables)
    kafka.send("clicks", ["a", "c"], partition=1)
    shown(f"{text_of(KAFKA, 'sh login')} {UNTIL_IDLE}", folder, kafka, variables)
    found = DeltaTable(str(folder / "output" / "counts")).to_pyarrow_table().to_pylist()
    assert {row["page"]: row["count"] for row in found} == {"a": 3, "b": 1, "c": 1}
    assert "behind" in shown(text_of(KAFKA, "sh look"), folder, kafka, variables)
    (folder / "kafka-password").unlink()
    password = PASSWORDS[SCRAM].encode()
    assert [str(path) for path in folder.rglob("*") if path.is_file() and password in path.read_bytes()] == []
