"""Flags for spark-submit: which reach it, and which are refused before anything starts."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tenure.errors import UsageError
from tenure.spark.submit import RETAINED, Submit, importable, read_submit


def test_flags_reach_it_as_they_were_written() -> None:
    text = "--driver-memory 2g --files 'a b.conf' --verbose --conf spark.x=y=z --jars=c.jar"
    found = read_submit(text, packages="g:a:1,g:b:2", conf={})
    assert found.arguments == [
        *("--driver-memory", "2g", "--files", "a b.conf", "--verbose"),
        *("--conf", "spark.x=y=z", "--jars", "c.jar", "--packages", "g:a:1,g:b:2"),
    ]
    assert found.settings == [("spark.x", "y=z")]
    assert read_submit(None, conf={}) == Submit()


@pytest.mark.parametrize("way", ["flag", "text", "conf in text", "conf"])
def test_the_pipeline_can_import_what_its_functions_can(tmp_path: Path, way: str) -> None:
    module, archive = tmp_path / "lib" / "helper.py", tmp_path / "more.zip"
    module.parent.mkdir()
    for file in (module, archive):
        file.touch()
    both = f"{module},{archive}"
    found = {
        "flag": lambda: read_submit(None, py_files=both, conf={}),
        "text": lambda: read_submit(f"--py-files {both}", conf={}),
        "conf in text": lambda: read_submit(f"--conf spark.submit.pyFiles={both}", conf={}),
        "conf": lambda: read_submit(None, conf={"spark.submit.pyFiles": both}),
    }[way]()
    assert importable(found.python_files) == [str(module.parent), str(archive)]
    urls = ("hdfs://h/x.zip", "file:///a/x.zip", "local:/b/x.zip", "lib/x.py", f"{tmp_path}/*.zip")
    assert importable(urls) == ["/a/x.zip", "/b/x.zip", os.path.abspath("lib"), str(archive)]
    assert read_submit(None, py_files=f"{module}, {tmp_path}/*.zip,local:/b/x.zip", conf={}).python_files[1:] == (
        f"{tmp_path}/*.zip",
        "local:/b/x.zip",
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("--master local", "--master in --submit is refused; give it to tenure run"),
        ("--master=local", "--master in --submit is refused; give it to tenure run"),
        (
            "--deploy-mode cluster",
            "--deploy-mode in --submit is refused; the driver runs beside its agent; leave it out",
        ),
        ("--supervise", "--supervise in --submit is refused; members watch over each other; leave it out"),
        ("--class x.Y", "--class in --submit is refused; the driver is Tenure's; leave it out"),
        ("--jars", "--jars in --submit has no value; write it after the flag"),
        ("a.py", "--submit has 'a.py' where a flag of spark-submit is expected; leave it out"),
        ("'", '--submit "\'" cannot be read: No closing quotation; quote it as in a shell'),
        ("--conf x=y", "--conf 'x=y' in --submit is not a setting of Spark's; write spark.NAME=VALUE"),
        ("--packages g:b:2", "--packages is given twice, also in --submit; join them with a comma"),
        ("-h", "-h in --submit is refused; see spark-submit --help"),
        ("--conf spark.master=yarn", "--conf spark.master in --submit is refused; give --master to tenure run"),
        ("--py-files no.py", "--py-files 'no.py' is not there; give the path of a .py, .zip or .egg file"),
    ],
)
def test_what_cannot_be_is_one_line(text: str, line: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_submit(text, packages="g:a:1", conf={})
    assert str(refused.value) == line


@pytest.mark.parametrize("value", ["0", "-1", "1", " 1 ", "two", "", "2.5"])
@pytest.mark.parametrize("way", ["conf", "text", "-c"])
def test_settings_with_which_nobody_could_take_over_are_refused(way: str, value: str) -> None:
    pair = f"{RETAINED}={value}"
    given = {"conf": (None, {RETAINED: value}), "text": (f"--conf '{pair}'", {}), "-c": (f"-c '{pair}'", {})}
    text, conf = given[way]
    with pytest.raises(UsageError, match=f"setting {re.escape(RETAINED)} cannot be {value!r}: .*; give 2 or more"):
        read_submit(text, conf=conf)


@pytest.mark.parametrize("value", ["2", " 3", "+4", "100"])
def test_settings_with_which_somebody_can_are_not(value: str) -> None:
    assert read_submit(f"--conf '{RETAINED}={value}'", conf={RETAINED: value}).settings == [(RETAINED, value)]
