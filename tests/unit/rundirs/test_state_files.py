"""Which files make up a version of a state store."""

from __future__ import annotations

import io
import json
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import CorruptRunDirectory
from tenure.rundirs import state_files
from tenure.rundirs.seed_logs import missing


def no_ids(version: int) -> None:
    return None


def chain(names: set[str], version: int) -> tuple[str, ...]:
    return state_files.state_chain(names, version, id_of=no_ids, where="state/0/1")


@pytest.mark.parametrize(("full", "changes"), [("zip", "changelog"), ("snapshot", "delta")])
@given(version=st.integers(1, 30), newest=st.integers(1, 30), fulls=st.sets(st.integers(1, 30)))
def test_the_chain_is_one_full_file_and_all_changes_above_it(
    full: str, changes: str, version: int, newest: int, fulls: set[int]
) -> None:
    names = {f"{number}.{changes}" for number in range(1, max(version, newest) + 1)}
    names |= {f"{number}.{full}" for number in fulls}
    base = max((number for number in fulls if number <= version), default=0)
    wanted = [f"{number}.{changes}" for number in range(version, base, -1)] + ([f"{base}.{full}"] if base else [])
    assert list(chain(names, version)) == wanted


def test_a_full_file_alone_is_enough() -> None:
    assert chain({"7.zip", "6.zip", "SSTs", "_metadata"}, 7) == ("7.zip",)


def test_checksum_files_go_along() -> None:
    names = {"2.changelog", "1.zip", "2.changelog.crc", "1.zip.crc", "1.changelog.crc", ".2.changelog.crc"}
    assert chain(names, 2) == ("2.changelog", "2.changelog.crc", "1.zip", "1.zip.crc")


@pytest.mark.parametrize("gone", ["5.zip", "6.changelog", "7.changelog"])
def test_a_gap_in_the_chain_is_named(gone: str) -> None:
    names = {"5.zip", "6.changelog", "7.changelog", "8.changelog", "8.zip"} - {gone}
    with pytest.raises(CorruptRunDirectory, match=rf"state/0/1/{gone[0]} is missing"):
        chain(names, 7)


def test_format_2_follows_the_ids_of_the_commits() -> None:
    names = {"3_a.zip", "4_x.zip", "4_b.changelog", "5_y.zip", "5_c.changelog", "5_y.changelog", "6_z.zip"}
    ids = {5: "c", 4: "b", 3: "a"}
    found = state_files.state_chain(names, 5, id_of=lambda version: ids[version], where="state/0/0")
    assert found == ("5_c.changelog", "4_b.changelog", "3_a.zip")


def purged(version: int) -> str:
    if version < 5:
        raise missing(f"commits/{version - 1}")
    return "c"


def test_commits_that_are_gone_leave_no_doubt_where_there_is_one_candidate() -> None:
    names = {"3_a.zip", "4_b.changelog", "5_c.changelog"}
    found = state_files.state_chain(names, 5, id_of=purged, where="state/0/0")
    assert found == ("5_c.changelog", "4_b.changelog", "3_a.zip")


@pytest.mark.parametrize("kinds", [("snapshot", "delta"), ("zip", "changelog")])
def test_without_ids_no_commits_are_needed(kinds: tuple[str, str]) -> None:
    full, changes = kinds  # a seed has the commit of its own batch only, and its chain may reach further back
    names = {f"1.{full}", *(f"{version}.{changes}" for version in range(1, 6))}

    def seeded(version: int) -> str | None:
        if version < 5:
            raise missing(f"commits/{version - 1}")
        return None

    found = state_files.state_chain(names, 5, id_of=seeded, where="state/0/0")
    assert found == (f"5.{changes}", f"4.{changes}", f"3.{changes}", f"2.{changes}", f"1.{full}")


def test_a_state_file_without_an_id_beside_one_with_an_id_leaves_doubt() -> None:
    with pytest.raises(CorruptRunDirectory, match="commits/3 is missing"):
        state_files.state_chain({"5_c.changelog", "4.zip", "4_b.zip"}, 5, id_of=purged, where="state/0/0")


@pytest.mark.parametrize("names", [{"4_b.changelog", "4_x.changelog"}, set()])
def test_commits_that_are_gone_are_named_where_there_is_doubt(names: set[str]) -> None:
    with pytest.raises(CorruptRunDirectory, match="commits/3 is missing"):
        state_files.state_chain(names | {"5_c.changelog", "3_a.zip"}, 5, id_of=purged, where="state/0/0")


def a_zip(metadata: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata", metadata)
    return data.getvalue()


def test_what_a_zip_refers_to() -> None:
    content = {
        "sstFiles": [{"localFileName": "000008.sst", "dfsSstFileName": "000008-u.sst", "sizeBytes": 12}],
        "logFiles": [{"localFileName": "9.log", "dfsLogFileName": "9-u.log", "sizeBytes": 3}],
    }
    files = state_files.files_of_zip(a_zip("v1\n" + json.dumps(content)), where="x")
    assert files == {"SSTs/000008-u.sst": 12, "logs/9-u.log": 3}
    assert state_files.files_of_zip(a_zip('v1\n{"sstFiles":[],"numKeys":0}'), where="x") == {}


@pytest.mark.parametrize(
    "data",
    [
        *(
            b"",
            b"PK",
            a_zip("v1\n{}")[:-30],
            a_zip("v1\n{"),
            a_zip('v1\n{"sstFiles":[{}]}'),
            a_zip('v1\n{"sstFiles":3}'),
        ),
        a_zip('v1\n{"sstFiles":[{"dfsSstFileName":"../../x.sst","sizeBytes":12}]}'),
    ],
    ids=["empty", "two bytes", "cut", "no JSON", "no name", "no list", "outside"],  # a zip has the time in it
)
def test_a_zip_that_does_not_decode(data: bytes) -> None:
    with pytest.raises(CorruptRunDirectory, match=r"state/0/0/7\.zip does not decode"):
        state_files.files_of_zip(data, where="state/0/0/7.zip")


@given(st.data())
def test_a_damaged_zip_is_read_or_named_but_nothing_else(data: st.DataObject) -> None:
    whole = bytearray(a_zip('v1\n{"sstFiles":[{"dfsSstFileName":"a.sst","sizeBytes":12}]}'))
    position = data.draw(st.integers(0, len(whole) - 1))
    whole[position] ^= data.draw(st.integers(1, 255))
    try:
        found = state_files.files_of_zip(bytes(whole), where="7.zip")
    except CorruptRunDirectory:
        return
    assert len(found) <= 1


def operator(*paths: str) -> str:
    info = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2, "stateSchemaFilePaths": list(paths)}
    return "v2\n" + json.dumps({"operatorInfo": {"operatorId": 0}, "stateStoreInfo": [info]})


@pytest.mark.parametrize(
    "path",
    [
        "file:/old/run/state/0/_stateSchema/default/0_a",
        "file:///old/run/state/0/_stateSchema/default/0_a",
        "/old/run/state/0/_stateSchema/default/0_a",
        "s3a://bucket/state/0/_stateSchema/run/state/0/_stateSchema/default/0_a",
    ],
)
def test_schema_paths_move_whatever_stands_before_them(path: str) -> None:
    text = operator(path, path + "2")
    asked: list[str] = []

    def root(old: str) -> str:
        asked.append(old)
        return "file:/new/state/0"

    moved = state_files.with_schema_paths(text, operator_root=root, where="x")
    assert asked == [path, path + "2"]
    new = "file:/new/state/0/_stateSchema/default/0_a"
    assert json.loads(moved.partition("\n")[2])["stateStoreInfo"][0]["stateSchemaFilePaths"] == [new, new + "2"]
    assert moved.startswith("v2\n")
    (store,) = state_files.decode_operator(text, where="x")
    assert store.schemas == ("_stateSchema/default/0_a", "_stateSchema/default/0_a2")


def test_stores_keep_the_order_of_their_ids() -> None:
    infos = [{"storeName": name, "numPartitions": 5} for name in ("left", "right", "default")]
    stores = state_files.decode_operator("v1\n" + json.dumps({"stateStoreInfo": infos}), where="x")
    assert [store.folder(3) for store in stores] == ["3/left", "3/right", "3"]
    assert {store.partitions for store in stores} == {5}


@pytest.mark.parametrize(
    "text", ["", "v1\n{}", 'v1\n{"stateStoreInfo":[]}', 'v1\n{"stateStoreInfo":[{}]}', "v7\n{}", operator("/elsewhere")]
)
def test_an_operator_that_does_not_decode(text: str) -> None:
    with pytest.raises(CorruptRunDirectory, match="state/0/_metadata/metadata does not decode"):
        state_files.decode_operator(text, where="state/0/_metadata/metadata")


def test_the_metadata_of_a_state_is_that_of_a_batch_before_it() -> None:
    assert state_files.newest_metadata({"0", "13", "20", ".13.crc"}, version=13, where="v2") == "0"
    assert state_files.newest_metadata({"0", "13", "20"}, version=14, where="v2") == "13"
    with pytest.raises(CorruptRunDirectory, match="has no entry of a batch before 13"):
        state_files.newest_metadata({"13", "20"}, version=13, where="v2")


def test_stores_are_found_where_spark_3_wrote_no_metadata() -> None:
    (default,) = state_files.stores_found({"0", "1", ".x"}, inside={"_metadata", "1.delta"}, where="state/0")
    assert (default.folder(1), default.partitions) == ("1", 2)
    sides = {"right-keyToNumValues", "left-keyToNumValues"}
    stores = state_files.stores_found({"0", "1", "2"}, inside=sides, where="state/0")
    assert [(one.folder(2), one.partitions) for one in stores] == [(f"2/{side}", 3) for side in sorted(sides)]


@pytest.mark.parametrize("partitions", [set(), {"1"}, {"0", "2"}])
def test_a_partition_that_is_missing_is_not_overlooked(partitions: set[str]) -> None:
    with pytest.raises(CorruptRunDirectory, match="state/0 lacks the state of a partition"):
        state_files.stores_found(partitions, inside={"1.delta"}, where="state/0")


def test_a_schema_without_nullability_has_the_same_lengths() -> None:
    text = b'\x00\x02v2\x00\x00\x00\x01\x00\x97{"name":"id","nullable":false},{"containsNull":false},{"nullable":true}'
    found = state_files.without_nullability(text)
    assert len(found) == len(text)
    assert found[:10] == text[:10]
    assert json.loads(f"[{found[10:].decode()}]") == [
        {"name": "id", "nullable": True},
        {"containsNull": True},
        {"nullable": True},
    ]
