"""The files of Spark's checkpoints in S3: whole or not there, and no put that failed is silent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tenure.errors import UsageError
from tenure.spark.hadoop import use_fitting_files
from tenure.spark.own_classes import CHECKPOINT_FILES, OBJECT_FILES, use_own_classes
from tenure.spark.own_folders import hold, release
from tenure.spark.releases import CHECKPOINTS_BY_FILE_SYSTEM, before, in_its_words
from tenure.storage.reach import reach
from tests.draw import QUARTERS, only_if_drawn
from tests.jvm import SharedJvm, Start
from tests.kit.servers import BUCKET
from tests.kit.waiting import wait_until
from tests.s3 import DENY, LOSE, reached
from tests.spark.object_store import KINDS, Place
from tests.support.far_gate import FarGate, Order

pytestmark = [pytest.mark.spark, only_if_drawn(QUARTERS[0])]


@pytest.fixture(scope="module")
def spark(jvm: SharedJvm, start_in_s3: Start) -> Iterator[SparkSession]:
    with jvm.lent(start_in_s3) as session:
        yield session


@pytest.fixture(autouse=True)
def by_the_gate(gate: FarGate, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clients of Python go by the gate, too; it lets all pass at first."""
    gate.obey(Order())
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    with reached(gate.url, monkeypatch):
        yield


class Files:
    """Spark's manager of the files in a folder of S3, of the class that the storage asks for."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self.root = f"s3a://{BUCKET}/{os.urandom(6).hex()}"
        use_own_classes(spark)
        use_fitting_files(spark, reach(self.root))
        self.manager = self._manager(spark._jsparkSession.sessionState().newHadoopConf())

    def _manager(self, conf: Any) -> Any:
        manager = getattr(
            self._jvm, in_its_words("org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager")
        )
        return manager.create(self.path(""), conf)

    def path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{name}")

    def begin(self, name: str, data: bytes, *, overwrite: bool = False) -> Any:
        stream = self.manager.createAtomic(self.path(name), overwrite)
        stream.write(data)
        return stream

    def write(self, name: str, data: bytes, *, overwrite: bool = False) -> None:
        self.begin(name, data, overwrite=overwrite).close()

    def read(self, name: str) -> bytes:
        stream = self.manager.open(self.path(name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def names(self, folder: str) -> list[str]:
        return [str(found.getPath().getName()) for found in self.manager.list(self.path(folder))]


@pytest.fixture
def conditional(spark: SparkSession) -> bool:
    """Whether Hadoop puts on the condition that no object is there. Else it looks for one before, and looks more."""
    jvm: Any = spark.sparkContext._jvm
    return not before("3.4.2", str(jvm.org.apache.hadoop.util.VersionInfo.getVersion()))


@pytest.fixture
def files(spark: SparkSession) -> Files:
    return Files(spark)


def test_a_file_is_one_put_and_appears_when_it_is_closed(files: Files, gate: FarGate, conditional: bool) -> None:
    stream = files.begin("offsets/0", b"first")
    assert files.names("offsets") == []
    stream.close()
    stream.close()
    assert (files.names("offsets"), files.read("offsets/0"), gate.puts()) == (["0"], b"first", 1)
    looks = [method for method, path, _ in gate.seen()[:2] if method == "HEAD" and "offsets/0" in path]
    assert bool(looks) is not conditional


def test_a_file_that_is_there_is_refused_and_stays(files: Files) -> None:
    files.write("offsets/0", b"first")
    with pytest.raises(Py4JJavaError, match=r"FileAlreadyExistsException.*offsets/0 is there"):
        files.write("offsets/0", b"second")
    assert files.read("offsets/0") == b"first"
    files.write("offsets/0", b"third", overwrite=True)
    assert files.read("offsets/0") == b"third"


def test_a_file_that_is_given_up_does_not_appear(files: Files, gate: FarGate) -> None:
    stream = files.begin("state/1.delta", b"half", overwrite=True)
    stream.cancel()
    stream.close()
    assert (files.names("state"), gate.puts()) == ([], 0)


def test_a_folder_without_files_is_empty_and_may_be_removed(files: Files, gate: FarGate) -> None:
    files.manager.mkdirs(files.path("offsets"))
    assert not files.manager.exists(files.path("offsets"))
    assert files.names("offsets") == []
    files.manager.delete(files.path("offsets"))
    files.manager.delete(files.path("offsets/0"))
    assert gate.puts() == 0
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        files.read("offsets/0")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_put_that_fails_is_an_error(files: Files, gate: FarGate, overwrite: bool) -> None:
    gate.obey(Order(DENY))
    with pytest.raises(Py4JJavaError, match="AccessDenied"):
        files.write("commits/0", b"done", overwrite=overwrite)
    gate.obey(Order())
    assert files.names("commits") == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_put_whose_answer_is_lost_is_settled(files: Files, gate: FarGate, overwrite: bool) -> None:
    gate.obey(Order(LOSE, "commits/0", once=True))
    files.write("commits/0", b"done", overwrite=overwrite)
    assert (gate.became(LOSE), gate.puts()) == (1, 2)
    assert files.read("commits/0") == b"done"


def test_a_put_without_any_answer_is_settled_by_a_look(files: Files, gate: FarGate, conditional: bool) -> None:
    """Without a name in the object, it is an error."""
    gate.obey(Order(LOSE))
    with nullcontext() if conditional else pytest.raises(Py4JJavaError):
        files.write("commits/0", b"done")
    assert files.read("commits/0") == b"done"


def test_a_put_of_which_nothing_is_known_is_an_error(files: Files, gate: FarGate) -> None:
    gate.obey(Order(LOSE, others=DENY))
    with pytest.raises(Py4JJavaError):
        files.write("commits/0", b"done")


def test_another_writers_file_is_not_taken_for_ours(files: Files, gate: FarGate) -> None:
    files.write("commits/0", b"theirs")
    gate.obey(Order(LOSE, "commits/0", once=True))
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        files.write("commits/0", b"ours")
    assert files.read("commits/0") == b"theirs"


@pytest.mark.parametrize(
    "chosen",
    [
        "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager",
        CHECKPOINTS_BY_FILE_SYSTEM,
    ],
)
def test_another_way_is_refused_in_s3_and_stays_elsewhere(spark: SparkSession, tmp_path: Path, chosen: str) -> None:
    spark.conf.set(CHECKPOINT_FILES, chosen)
    with pytest.raises(UsageError, match=r"is refused.*loses files"):
        use_fitting_files(spark, reach(f"s3://{BUCKET}/rows"))
    use_fitting_files(spark, reach(str(tmp_path)))
    assert spark.conf.get(CHECKPOINT_FILES) == chosen
    spark.conf.unset(CHECKPOINT_FILES)
    use_fitting_files(spark, reach(str(tmp_path)))
    assert spark.conf.get(CHECKPOINT_FILES, None) is None
    use_fitting_files(spark, reach(f"s3://{BUCKET}/rows"))
    assert spark.conf.get(CHECKPOINT_FILES) == OBJECT_FILES


# --- a run directory that the driver holds ---------------------------------------------------------------------------


@pytest.fixture
def held(spark: SparkSession, files: Files, gate: FarGate) -> Iterator[Files]:
    """A run directory after two batches, which the driver holds. The gate counts from here on."""
    for name in ("metadata", "offsets/0", "offsets/1", "commits/0", "sources/0/0", "state/0/0/1.delta"):
        files.write(name, name.encode())
    hold(spark, files.root)
    gate.obey(Order())
    yield files
    release(spark, files.root)


def test_the_store_is_asked_for_nothing_that_is_known(held: Files, gate: FarGate, conditional: bool) -> None:
    assert held.names("offsets") == ["0", "1"]
    assert held.names("sources") == ["0"]
    assert held.names("later") == []
    assert held.read("offsets/1") == held.read("offsets/1") == b"offsets/1"
    assert held.read("state/0/0/1.delta") == b"state/0/0/1.delta"
    there = [held.manager.exists(held.path(name)) for name in ("metadata", "offsets", "state/0", "commits/1", "later")]
    assert there == [True, True, True, False, False]
    assert gate.seen() == []
    held.write("commits/1", b"done")
    assert (held.names("commits"), held.read("commits/1")) == (["0", "1"], b"done")
    methods = [method for method, _, _ in gate.seen()]
    assert methods == ["PUT"] if conditional else methods.count("PUT") == 1


def test_below_the_state_others_write_too(held: Files, spark: SparkSession) -> None:
    path, conf = held.path("state/0/0/2.delta"), spark._jsparkSession.sessionState().newHadoopConf()
    stream = path.getFileSystem(conf).create(path)
    stream.write(b"theirs")
    stream.close()
    assert held.names("state/0/0") == ["1.delta", "2.delta"]
    assert held.manager.exists(path)
    assert held.read("state/0/0/2.delta") == b"theirs"
    assert not held.manager.exists(held.path("state/0/0/3.delta"))


def test_a_large_file_is_not_kept_and_its_length_is_known(files: Files, spark: SparkSession, gate: FarGate) -> None:
    files.write("state/0/0/1.delta", bytes(3 << 20))
    hold(spark, files.root)
    gate.obey(Order())
    assert files.read("state/0/0/1.delta") == bytes(3 << 20)
    assert {method for method, _, _ in gate.seen()} == {"GET"}
    release(spark, files.root)


def test_a_removed_file_is_not_there(held: Files) -> None:
    held.write("offsets/10", b"later")
    held.manager.delete(held.path("offsets/1"))
    assert held.names("offsets") == ["0", "10"]
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        held.read("offsets/1")
    held.manager.delete(held.path("offsets"))
    assert held.names("offsets") == []
    assert not held.manager.exists(held.path("offsets"))


def test_a_file_whose_removal_failed_is_there(held: Files, gate: FarGate) -> None:
    gate.obey(Order(others=DENY))
    with pytest.raises(Py4JJavaError, match="AccessDenied"):
        held.manager.delete(held.path("offsets/1"))
    gate.obey(Order())
    assert held.names("offsets") == ["0", "1"]
    assert gate.seen() != [], "the store answers again"


def test_a_file_that_is_put_again_is_read_as_it_is(held: Files) -> None:
    held.write("sources/0/0", b"other, and longer", overwrite=True)
    assert held.read("sources/0/0") == b"other, and longer"
    held.write("state/0/0/1.delta", b"other, and longer than before", overwrite=True)
    assert held.read("state/0/0/1.delta") == b"other, and longer than before"
    held.write("offsets/2", bytes(3 << 20))
    assert held.read("offsets/2") == bytes(3 << 20)


def test_a_file_that_another_put_is_refused_though_it_is_not_known(held: Files, spark: SparkSession) -> None:
    path, conf = held.path("offsets/2"), spark._jsparkSession.sessionState().newHadoopConf()
    stream = path.getFileSystem(conf).create(path)
    stream.write(b"theirs")
    stream.close()
    with pytest.raises(Py4JJavaError, match=r"FileAlreadyExistsException.*offsets/2 is there"):
        held.write("offsets/2", b"ours")
    assert held.names("offsets") == ["0", "1", "2"], "the store answers again"
    assert held.read("offsets/2") == b"theirs"


def test_a_file_that_was_given_up_is_not_known(held: Files) -> None:
    stream = held.begin("offsets/2", b"half")
    assert held.names("offsets") == ["0", "1"]
    stream.cancel()
    stream.close()
    assert held.names("offsets") == ["0", "1"]


def test_an_empty_run_directory_is_held(files: Files, spark: SparkSession, gate: FarGate, conditional: bool) -> None:
    hold(spark, files.root)
    gate.obey(Order())
    assert (files.names("offsets"), files.manager.exists(files.path("metadata"))) == ([], False)
    files.write("metadata", b"id")
    methods = [method for method, _, _ in gate.seen()]
    assert methods == ["PUT"] if conditional else methods.count("PUT") == 1
    assert files.read("metadata") == b"id"
    release(spark, files.root)


def test_what_is_released_is_forgotten(held: Files, spark: SparkSession, gate: FarGate) -> None:
    release(spark, held.root)
    assert held.read("offsets/1") == b"offsets/1"
    assert gate.seen() != []


# --- a batch --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_with_a_put_that_fails_ends_the_query_and_the_next_term_goes_on(
    spark: SparkSession, gate: FarGate, tmp_path: Path, kind: str
) -> None:
    place = Place(spark, tmp_path)
    place.feed()
    place.feed()
    with place.led() as (stream, query):
        query.processAllAvailable()
        gate.obey(Order(DENY, KINDS[kind]))
        place.feed()
        wait_until(lambda: not query.isActive)
        assert gate.became(DENY) > 0
        assert stream.failure is not None or query.exception() is not None
    gate.obey(Order())
    place.feed()
    with place.led() as (_, query):
        query.processAllAvailable()
    assert place.counts() == place.truth()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_with_a_put_whose_answer_is_lost_goes_on(
    spark: SparkSession, gate: FarGate, tmp_path: Path, kind: str
) -> None:
    place = Place(spark, tmp_path)
    place.feed()
    place.feed()
    with place.led() as (_, query):
        query.processAllAvailable()
        gate.obey(Order(LOSE, KINDS[kind], once=True))
        place.feed()
        query.processAllAvailable()
        assert gate.became(LOSE) == 1
        place.feed()
        query.processAllAvailable()
    assert place.counts() == place.truth()
