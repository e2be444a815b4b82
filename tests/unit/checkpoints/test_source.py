"""What a source is known by, by its format and options."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tenure.checkpoints.source import (
    ANOTHER,
    FILES,
    KAFKA,
    Kind,
    Source,
    in_words,
    kinds_of,
    paths_of,
    sources_beside,
)
from tenure.coordination.encoding import typed


@pytest.mark.parametrize(
    ("format_", "options", "words"),
    [
        ("kafka", {"subscribe": "b, a", "kafka.bootstrap.servers": "h:1", "failOnDataLoss": "false"}, "subscribe=a,b"),
        ("kafka", {"subscribePattern": "a.*"}, "subscribepattern=a.*"),
        ("kafka", {"assign": '{"b": [1],  "a": [0]}'}, 'assign={"a":[0],"b":[1]}'),
        ("kafka", {"assign": "{"}, "assign={"),
        ("rate", {"rowsPerSecond": "5"}, ""),
        ("delta", {"path": "s3a://b/t", "ignoreDeletes": "true"}, "path=s3a://b/t"),
        ("maps", {"Feed": "web", "maxRows": "5", "startingAt": "x", "timeoutS": "5", "retries": "2"}, "feed=web"),
        ("maps", {"url": "https://anna:secret@host/x", "apiKey": "k", "PASSWORD": "p"}, "url=https://host/x"),
        ("maps", {"url": "https://host/x?part=1", "host": "h"}, "host=h url=https://host/x?part=1"),
        ("maps", {"url": "https://host/x?sig=abc"}, "url=https://host/x"),
        ("maps", {"topic": "t", "pin": "1234"}, "pin=#03ac6742 topic=t"),
    ],
)
def test_the_options_that_name_what_is_read(format_: str, options: dict[str, str], words: str) -> None:
    assert in_words(format_, options) == f"{format_} {words}".rstrip()


def test_files_are_known_by_their_path_alone() -> None:
    assert in_words("json", {"path": "file:/a", "maxFilesPerTrigger": "1", "multiLine": "true"}, files=True) == (
        "json path=file:/a"
    )


def test_a_source_is_known_by_what_it_reads_and_its_words_are_short() -> None:
    one = Source.of("0", FILES, "json path=file:/a")
    assert one == Source.of("0", ANOTHER, "json path=file:/a")
    assert one != Source.of("0", FILES, "json path=file:/b")
    assert one != Source.of("1", FILES, "json path=file:/a")
    assert len(Source.of("0", FILES, "json path=" + "a" * 1000).told) < 400
    assert [one.is_named, Source.of("web", FILES, "x").is_named] == [False, True]


def test_the_sources_of_a_plan_that_does_not_fit_its_query_are_not_known() -> None:
    files, kafka = Source.of("0", FILES, "a", path="file:/a"), Source.of("1", KAFKA, "b")
    assert sources_beside(("0", "1"), (files, kafka)) == (files, kafka)
    assert sources_beside(("0", "0"), (files, kafka)) == ()
    assert sources_beside(("0",), ()) == ()
    assert sources_beside(("0",), (named := Source.of("web", FILES, "a"),)) == (named,)
    assert (kinds_of((files, kafka)), paths_of((files, kafka))) == ({"0": FILES, "1": KAFKA}, {"0": "file:/a"})


@pytest.mark.parametrize("value", [None, [], {"0": "magic"}, {"0": 1}, {"0": ["files"]}])
def test_kinds_that_are_none(value: object) -> None:
    with pytest.raises(ValueError, match="kinds"):
        typed(Mapping[str, Kind], value, "kinds")
