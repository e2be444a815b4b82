"""Pure: what the answers of the servers that a store URL names say about them.

Promise: no I/O. Two servers of two clusters in one URL are the worst: each would elect a leader of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenure.coordination.examination import Grade, Remark


def about_servers(what: str, answers: Mapping[str, str | None]) -> Remark:
    """`answers`: `host:port` -> the cluster that the server belongs to; None: it did not answer. `what`: the name of
    the store, for people."""
    clusters = sorted({cluster for cluster in answers.values() if cluster is not None})
    silent = [server for server, cluster in answers.items() if cluster is None]
    count, there = len(answers), len(answers) - len(silent)
    if len(clusters) > 1:
        return Remark(
            Grade.BAD,
            f"the servers of the store URL belong to {len(clusters)} clusters of {what}: {', '.join(answers)}",
            "each cluster elects a leader of its own, and both write",
            "name the servers of one cluster",
        )
    if silent:
        return Remark(
            Grade.WARN,
            f"{there} of {count} servers of {what} answer; silent: {', '.join(silent)}",
            "without a majority of the cluster no member can lead",
            "start the servers, or take them out of the store URL",
        )
    if count == 1:
        return Remark(
            Grade.NOTE,
            f"the store URL names one server of {what}, {next(iter(answers))}, which answers",
            "while it is away, no member can be elected",
            "name all servers of a cluster of three or five",
        )
    return Remark(Grade.OK, f"all {count} servers of {what} answer")
