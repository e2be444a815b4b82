"""Classes of ours in Spark's JVMs: Java sources, which Janino compiles in the driver's JVM.

Spark ships Janino for its generated code, so Tenure ships no jar and needs no compiler.

Promise: after `use_own_classes` the driver's JVM finds the classes by name, as do the tasks of all executors, also of
executors that start later: Spark hands them the compiled jar. A JVM is given the classes once.
"""

from __future__ import annotations

import threading
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tenure.errors import QueryFailed
from tenure.link.driver_folder import full_disk_fix
from tenure.spark.errors import SPARK_ERRORS, one_line, words_of
from tenure.spark.releases import IN_WORDS, in_its_words, own_sources

OBJECT_FILES: Final = "tenure.spark.ObjectFiles"
"""Spark's files of a checkpoint in an object store."""
STAGED_OUTPUT: Final = "tenure.spark.StagedOutput"
"""The commit of staged output."""

CHECKPOINT_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
"""Spark's setting with the class that writes the files of a checkpoint."""

_SOURCES: Final = ("KeptTables.java", "OwnFolder.java", "ObjectFiles.java", "ReplayedState.java", "StagedOutput.java")
"""In an order in which each needs only those before it."""
_lock = threading.Lock()  # guards _given
_given: WeakSet[SparkContext] = WeakSet()


def use_own_classes(spark: SparkSession) -> None:
    """Give the classes to the driver's JVM and to the executors, unless they have them. Raises QueryFailed."""
    context = spark.sparkContext
    with _lock:
        if context in _given:
            return
        try:
            _give(context)
        except SPARK_ERRORS as error:
            fix = full_disk_fix(words_of(error)) or f"see that Spark is {IN_WORDS}"
            raise QueryFailed(f"Spark does not take Tenure's classes: {one_line(error)}", fix=fix) from error
        _given.add(context)


def _give(context: SparkContext) -> None:
    jvm: Any = context._jvm
    jar = Path(str(context._temp_dir)) / "tenure-classes.jar"  # in a folder that goes with the JVM
    with zipfile.ZipFile(jar, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        for source in own_sources(_SOURCES):
            compiler = compile_source(jvm, source, loader)
            loader = compiler.getClassLoader()
            for name, code in codes_of(compiler).items():
                archive.writestr(f"{name.replace('.', '/')}.class", code)
    jvm.java.lang.Thread.currentThread().getContextClassLoader().addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    context._jsc.sc().addJar(str(jar))


def java_source(name: str) -> str:
    """The text of a source of `java/`, as the installed Spark compiles it."""
    return in_its_words(files("tenure.spark").joinpath("java", name).read_text(encoding="utf-8"))


def compile_source(jvm: Any, source: str, loader: Any, *, replaced: tuple[str, str] = ("", "")) -> Any:
    """Janino's compiler after it has compiled a source of `java/`. `loader`: has the classes that it needs.
    `replaced`: words of the source, and the words in their place."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(java_source(source).replace(*replaced))
    return compiler


def codes_of(compiler: Any) -> dict[str, bytes]:
    """The classes of a source that was compiled: name -> bytes."""
    codes = compiler.getBytecodes()
    return {str(name): bytes(codes[name]) for name in codes}
