"""Pure: what Ivy, by which spark-submit fetches packages, says about a failure, and settings for Ivy without Maven's
own cache.

Ivy asks Maven's cache on this machine (`~/.m2`) first, and takes a module from where its POM is. Maven leaves POMs
there whose jars it never fetched. Such a module cannot be fetched at all, until Ivy does not ask that cache.

Promise: the settings ask the repository that Spark asks (`DEFAULT_ARTIFACT_REPOSITORY`, else the central repository).
Spark adds those of `spark.jars.repositories`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import quoteattr

_LACKING: Final = re.compile(r"(?:unresolved dependency|download failed): ([\w.-]+)#([\w.-]+);([^\s:!,\]]+)")
_IN_PASSING: Final = re.compile(
    r"SERVER ERROR|Server access error|Read timed out|Connection (?:reset|refused|timed out)"
)
"""How Ivy speaks of a server that may answer later. A module that is nowhere is only "not found"."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """The packages that Ivy could not fetch (`group:name:version`). `in_passing`: a server refused, or was silent."""

    packages: tuple[str, ...]
    in_passing: bool


def lacking_in(log: str) -> Lacking | None:
    """The missing packages in the output of a spark-submit; None: it did not fail for want of packages."""
    found = dict.fromkeys(":".join(match) for match in _LACKING.findall(log))
    return Lacking(tuple(found), _IN_PASSING.search(log) is not None) if found else None


def settings_without_maven(environment: Mapping[str, str]) -> str:
    """The text of a file for `spark.jars.ivySettings`."""
    repository = environment.get("DEFAULT_ARTIFACT_REPOSITORY")
    root = "" if not repository else f" root={quoteattr(repository)}"
    return f"""<ivysettings>
  <settings defaultResolver="default"/>
  <resolvers>
    <chain name="default">
      <ibiblio name="central" m2compatible="true" usepoms="true"{root}/>
    </chain>
  </resolvers>
</ivysettings>
"""
