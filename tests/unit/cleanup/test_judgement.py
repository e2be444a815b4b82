"""What goes by folders is what goes file by file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tenure.cleanup.engine import Everything, verdicts
from tenure.cleanup.judgement import orphans_among, table_of
from tenure.cleanup.orphans import Claims, OrphanRule, is_orphan, orphans_in
from tenure.storage.storage import Listed

UID = "0123456789ab"
_EPOCHS = st.integers(0, 6).map(lambda epoch: f"e{epoch:08d}")
_MEMBERS = st.sampled_from(["anna", "ben", "gone"])
_RUNS = st.builds(lambda epoch, member: f"{epoch}-{member}-{UID}", _EPOCHS, _MEMBERS)
_ODD = st.sampled_from(["e1", "notes", "e00000001", "..", "a b", "a\nb", "e00000001-x"])
_FOLDERS = st.one_of(
    st.builds(lambda run: f"runs/q/{run}", _RUNS),
    st.builds(lambda run, below: f"runs/q/{run}/{below}", _RUNS, st.sampled_from(["state", "state/0/1", "offsets"])),
    st.builds(lambda member: f"rehearsals/{member}/q-{UID}/state", _MEMBERS),
    st.builds(lambda member: f"rehearsals/{member}", _MEMBERS),
    st.builds(lambda epoch: f"blobs/{epoch}", _EPOCHS),
    st.builds(lambda epoch: f"blobs/{epoch}/checkpoints/q", _EPOCHS),
    st.sampled_from(["runs", "runs/q", "rehearsals", "blobs", "blobs/notes"]),
    st.builds(lambda top, odd: f"{top}/{odd}", st.sampled_from(["runs", "runs/q", "rehearsals", "blobs"]), _ODD),
)
_NAMES = st.one_of(st.sampled_from(["", "1.zip", "metadata"]), _RUNS, _ODD)
_LISTED = st.lists(
    st.builds(
        lambda folder, names: Listed(folder, names, [len(name) for name in names]),
        _FOLDERS,
        st.lists(_NAMES, min_size=1, max_size=4, unique=True),
    ),
    max_size=8,
)


def _unit(path: str) -> str:
    """What is asked for when a file is: the run directory or rehearsal that it is in, or itself."""
    parts = path.rstrip("/").split("/")
    return "/".join(parts[:3]) if parts[0] in ("runs", "rehearsals") and len(parts) > 2 else path


@given(_LISTED, st.integers(0, 5), st.data())
def test_files_go_as_each_would_by_itself(found: list[Listed], epoch: int, data: st.DataObject) -> None:
    paths = [path for one in found for path in one.paths]
    nameable = sorted({_unit(path) for path in paths if not _unit(path).endswith("/")})
    named = data.draw(st.sets(st.sampled_from(nameable))) if nameable else set()
    claims = Claims(epoch, "anna", frozenset({"anna", "ben"}), frozenset(named))
    rule = OrphanRule(claims)
    rows = orphans_among(table_of(found), rule, sizes=lambda paths: []).to_pylist()
    wanted = [path for path in paths if is_orphan(_unit(path), claims)]
    assert [row["path"] for row in rows] == wanted
    assert [path for path, goes in zip(paths, verdicts(rule, paths), strict=True) if goes] == wanted
    assert [row["size"] for row in rows] == [len(path.rpartition("/")[2]) for path in wanted]
    assert [row["unit"] for row in rows] == [_unit(path) for path in wanted]


@dataclass(frozen=True)
class Drawn(Everything):
    """Any rule: `rulings` of folders, else of paths by `going`."""

    rulings: Mapping[str, bool | None] = field(default_factory=dict)
    going: frozenset[str] = frozenset()

    def of_folders(self, folders: Sequence[str]) -> list[bool | None]:
        return [self.rulings[folder] for folder in folders]

    def of_paths(self, paths: Sequence[str]) -> list[bool]:
        return [path in self.going for path in paths]


@given(_LISTED, st.data())
def test_rows_and_columns_judge_alike_by_any_rule(found: list[Listed], data: st.DataObject) -> None:
    paths = [path for one in found for path in one.paths]
    some = st.sets(st.sampled_from(paths)) if paths else st.just(set[str]())
    rulings = {one.folder: data.draw(st.sampled_from([True, False, None])) for one in found}
    rule = Drawn(3, frozenset(data.draw(some)), rulings=rulings, going=frozenset(data.draw(some)))
    rows = orphans_among(table_of(found), rule, sizes=None)["path"].to_pylist()
    assert rows == [path for path, goes in zip(paths, verdicts(rule, paths), strict=True) if goes]


@given(_FOLDERS, _NAMES, st.integers(0, 5))
def test_a_folder_s_ruling_is_that_of_each_file_in_it(folder: str, name: str, epoch: int) -> None:
    claims = Claims(epoch, "anna", frozenset({"anna", "ben"}), frozenset())
    ruling = orphans_in(folder, claims)
    if ruling is not None and name and "//" not in folder:
        assert ruling == is_orphan(_unit(f"{folder}/{name}"), claims)


def test_what_no_name_of_ours_looks_like_stays() -> None:
    claims = Claims(9, "anna", frozenset(), frozenset())
    for folder in ("rehearsals/gone/", "blobs/e00000001//x", "runs/q//e00000001"):
        assert orphans_in(folder, claims) is False


def test_sizes_are_asked_for_those_that_go_only() -> None:
    asked: list[str] = []

    def sizes(paths: Sequence[str]) -> list[int]:
        asked.extend(paths)
        return [7] * len(paths)

    claims = Claims(3, "anna", frozenset({"anna"}), frozenset())
    found = [Listed("blobs/e00000001/x", ["a"], None), Listed("blobs/e00000003/x", ["b"], None)]
    assert [row["size"] for row in orphans_among(table_of(found), OrphanRule(claims), sizes=sizes).to_pylist()] == [7]
    assert asked == ["blobs/e00000001/x/a"]
    assert orphans_among(table_of([]), OrphanRule(claims), sizes=sizes).num_rows == 0
