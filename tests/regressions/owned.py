"""A pipeline by the real command line, on a store and a storage that others have their hands on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.records import Record, Scope
from tenure.coordination.store import CoordinationStore
from tests.cli.support import COPY, Place, Told, tenure
from tests.lives import bring_back, copy_of, empty

ROWS = Scope("rows")


class Scene:
    """A pipeline on a store that others have their hands on."""

    def __init__(self, place: Place, url: str, spark: SparkSession) -> None:
        self.place = place
        self.url = url
        self.spark = spark
        self.storage = place.storage
        self.file = place.pipeline(COPY)

    def where(self, *, url: str = "", storage: Path | None = None) -> list[str]:
        return ["--store", url or self.url, "--storage", f"file://{storage or self.storage}"]

    def run(
        self, *more: str, url: str = "", storage: Path | None = None, output: Path | None = None, file: str = ""
    ) -> Told:
        """A run until idle."""
        flags = [*self.place.flags()[4:], *("--param", f"output={output or self.place.output}")]
        where = self.where(url=url, storage=storage)
        return tenure("run", file or self.file, *where, *flags, "--until-idle", *more, spark=self.spark)

    def goes_on(self, *ids: int) -> None:
        """A run takes what is new, and nothing twice."""
        told = self.run()
        assert told.code == 0, told.err
        assert self.place.ids() == [*ids]

    def begins_anew(self, *ids: int) -> None:
        """What a refusal tells to do: another scope, and another output, in the same store and storage."""
        output = self.place.folder / "output-anew"
        told = self.run("--scope", "anew", output=output)
        assert told.code == 0, told.err
        assert sorted(DeltaTable(str(output)).to_pyarrow_table()["id"].to_pylist()) == [*ids]

    def refused(self, why: str, *, url: str = "") -> None:
        """Whoever starts, plans a sweep, or asks what could go, is refused in one line, and nothing is changed."""
        before, output = files(self.place.storage), self.place.ids()
        sweep = ("sweep", "plan", str(self.place.folder / "plan"), "--scope", "rows")
        status = ("cleanup", "status", "--scope", "rows")
        for told in (
            self.run(url=url),
            tenure(*sweep, *self.where(url=url)),
            tenure(*status, *self.where(url=url)),
        ):
            assert told.code == 11, told.err
            start = f"storage file://{self.storage}/rows is not that of scope 'rows' in this store: "
            assert told.error.startswith(start + why), told.error
            assert " leads, epoch " not in told.err
        assert files(self.place.storage) == before
        assert self.place.ids() == output

    @contextmanager
    def store(self, url: str = "") -> Iterator[CoordinationStore]:
        with closing(open_store(url or self.url, clock=SystemClock())) as store:
            yield store

    def copy(self) -> Sequence[Record]:
        with self.store() as store:
            return copy_of(store, ROWS)

    def bring_back(self, copy: Sequence[Record]) -> None:
        with self.store() as store:
            bring_back(store, ROWS, copy)

    def empty(self) -> None:
        with self.store() as store:
            empty(store, ROWS)


def files(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
