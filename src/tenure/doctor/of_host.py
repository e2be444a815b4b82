"""Looks at this host: the settings, Python and Spark, Java, the temporary folder, the address of the probes.

Promise: where a member checks the same at its start, its check is called here.
"""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterator

from tenure.agent.probes import parse_address
from tenure.assembly import check_log, identify, submit_of
from tenure.coordination.examination import Grade, Remark
from tenure.doctor import rules
from tenure.doctor.case import Case, NotMade
from tenure.errors import UsageError
from tenure.link.driver_folder import DriverFolder, temporary_folder
from tenure.spark.installed import find_spark, use_spark
from tenure.spark.installed_java import find_java, java_version
from tenure.storage.disk import free_space
from tenure.wording import has_password, masked_url


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


def look_at_temporary_folder(case: Case) -> Iterator[Remark]:
    """The folder in which a driver's JVM unpacks its libraries. Raises UsageError."""
    DriverFolder.make("doctor").remove()
    root = temporary_folder()
    yield rules.about_space(f"the temporary folder {root}", free_space(str(root)))


def look_at_http(case: Case) -> Iterator[Remark]:
    """The address of the probes. Raises UsageError."""
    if case.settings.http is None:
        raise NotMade("no --http is given, so nobody can ask a member how it is")
    host, port = parse_address(case.settings.http)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as asked:
        asked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            asked.bind((host, port))
            asked.listen()
        except OSError as error:
            raise UsageError(
                f"--http {case.settings.http!r} cannot be listened at: {error.strerror or error}",
                fix="give a free address, unless a member that runs here has it",
            ) from error
    try:
        import tenure.agent.metrics  # noqa: F401 - a member imports it for --http
    except ModuleNotFoundError as error:
        raise UsageError(f"--http needs the Python package {error.name!r}, which is not installed") from error
    yield Remark(Grade.OK, f"{case.settings.http} is free")
