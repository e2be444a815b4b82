"""What must not be in the tree: paths of one machine, large files, marks of unfinished work."""

from __future__ import annotations

import re
import stat
import tomllib

from tests.house import tree

# Put together from parts, so that this file does not accuse itself.
LOCAL_PATH = re.compile("|".join("/" + part + "/" for part in ("home/[a-z]+", "Users/[A-Za-z]+", "root")))
UNFINISHED = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK")) + r")\b")
MAX_BYTES = 400_000


def texts() -> list[tuple[str, str]]:
    found = []
    for path in tree.files():
        raw = path.read_bytes()
        if b"\0" not in raw:
            found.append((str(path.relative_to(tree.ROOT)), raw.decode("utf-8")))
    return found


def places(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number} {line.strip()[:100]}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_path_of_one_machine() -> None:
    assert not places(LOCAL_PATH)


def test_nothing_is_left_unfinished() -> None:
    assert not places(UNFINISHED)


def test_no_instruction_names_a_package_that_is_not_ours() -> None:
    """The index has no package of our name: a stranger could register it. An extra may name another extra."""
    named = places(re.compile(r"\b" + "tenure" + r"\[[a-z,]+"))
    extras = tomllib.loads((tree.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    of_extras = [place for place in named if place.startswith("pyproject.toml:")]
    assert sum(place.count("tenure[") for place in of_extras) == str(extras).count("tenure[")
    assert [place for place in named if place not in of_extras and "tenure[name]" not in place] == []


def test_no_large_file() -> None:
    sizes = {str(path.relative_to(tree.ROOT)): path.stat().st_size for path in tree.files()}
    assert not {name: size for name, size in sizes.items() if size > MAX_BYTES}


def test_scripts_can_be_executed() -> None:
    flat = [
        str(path) for path in tree.files() if path.read_bytes()[:2] == b"#!" and not path.stat().st_mode & stat.S_IXUSR
    ]
    assert not flat
