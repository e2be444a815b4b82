"""Looks at this host: the settings, Python and Spark, Java, the temporary folder, the address of the probes.

Promise: where a member checks the same at its start, its check is called here.
"""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterator
from typing import Final

from tenure.assembly import check_log, identify, submit_of
from tenure.coordination.examination import Grade, Remark
from tenure.doctor import rules
from tenure.doctor.case import Case, NotMade
from tenure.doctor.host_memory import free_memory, heap_bytes
from tenure.doctor.other_clocks import time_at
from tenure.errors import UsageError
from tenure.link.driver_folder import DriverFolder, temporary_folder
from tenure.spark.installed import find_spark, use_spark
from tenure.spark.installed_java import find_java, java_version
from tenure.storage.disk import free_space
from tenure.wording import has_password, how_to_install, masked_url

_HEAP: Final = "spark.driver.memory"
_USUAL_HEAP: Final = "1g"
"""Spark's own, where neither a flag nor a setting names another. `spark-defaults.conf` is not read."""
_MASTER_S: Final = 3.0
_EVERYWHERE: Final = ("", "0.0.0.0", "::")


def look_at_settings(case: Case) -> Iterator[Remark]:
    """The values of the settings, and the files that they name. Raises UsageError."""
    settings = case.settings
    identify(settings)
    submit_of(settings)
    for path, flag in ((settings.spark_log, "--spark-log"), (settings.event_log, "--event-log")):
        if path is not None:
            check_log(path, flag=flag)
    if settings.store is not None and has_password(settings.store):
        yield Remark(
            Grade.WARN,
            f"store URL {masked_url(settings.store)!r} has a password",
            "lists of processes show it",
            "leave it out, and set TENURE_STORE_PASSWORD or store_password_file",
        )
    yield from rules.about_times(ttl=settings.ttl, stop_patience=settings.stop_patience)


def look_at_python(case: Case) -> Iterator[Remark]:
    """The Python of this process, and the Spark that its drivers would start. Raises UsageError."""
    spark = find_spark(os.environ)
    use_spark()
    from tenure.spark.releases import check_release

    check_release(spark.version)
    yield Remark(Grade.OK, f"Python {platform.python_version()}, PySpark {spark.version} in {spark.home}")


def look_at_java(case: Case) -> Iterator[Remark]:
    """The Java that Spark's scripts would start. Raises UsageError."""
    java = find_java(os.environ)
    major, spark = java_version(java), find_spark(os.environ)
    from tenure.spark.releases import check_java_version

    check_java_version(major, version=spark.version)
    yield Remark(Grade.OK, f"Java {major}, {java}")


def look_at_master(case: Case) -> Iterator[Remark]:
    """Whether the masters of a standalone cluster listen. Only a job, as of check `executors`, sees the executors."""
    master = case.settings.master or case.settings.conf.get("spark.master") or ""
    scheme, _, hosts = master.partition("://")
    if scheme != "spark":
        raise NotMade(
            f"--master {master} is none of a standalone cluster" if master else "no --master of a cluster is given"
        )
    yield from rules.about_masters({address: _silence_of(address) for address in hosts.split(",")})


def _silence_of(address: str) -> str:
    """Why nobody listens at `HOST:PORT`; empty: somebody does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_MASTER_S).close()
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def look_at_temporary_folder(case: Case) -> Iterator[Remark]:
    """The folder in which a driver's JVM unpacks its libraries. Raises UsageError."""
    DriverFolder.make("doctor").remove()
    root = temporary_folder()
    yield rules.about_space(f"the temporary folder {root}", free_space(str(root)))


def look_at_memory(case: Case) -> Iterator[Remark]:
    """The memory of this host, or of the group of this process, for one more driver. Raises UsageError."""
    free = free_memory()
    if free is None:
        raise NotMade("this host does not say how much memory is free")
    submit = submit_of(case.settings)
    settings = {_HEAP: _USUAL_HEAP, **case.settings.conf, **dict(submit.settings)}  # of a name given twice, the last
    size = dict(submit.flags).get("--driver-memory") or settings[_HEAP]
    heap = heap_bytes(size)
    if heap is None:
        raise UsageError(f"{_HEAP} {size!r} is not a size", fix="write it as in 4g or 512m")
    yield rules.about_memory(free, heap=heap)


def look_at_http(case: Case) -> Iterator[Remark]:
    """The address of the probes. Raises UsageError."""
    address = case.settings.http
    if address is None:
        raise NotMade("no --http is given, so nobody can ask a member how it is")
    try:
        from tenure.agent.listening import listen, parse_address
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--http needs the Python package {error.name!r}, which is not installed", fix=how_to_install("metrics")
        ) from error
    host, port = parse_address(address)
    try:
        listen(address).close()
    except UsageError:
        if port == 0 or time_at(f"{'127.0.0.1' if host in _EVERYWHERE else host}:{port}") is None:
            raise
        yield Remark(Grade.NOTE, f"a member that runs here listens at {address}")
    else:
        yield Remark(Grade.OK, f"{address} is free")
