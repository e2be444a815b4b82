"""`python -m tests.soak --ends N`: random ends of members, and the outputs against the truth; `--placed NAME`: an end
at an exact point.

Promise: a run's seed decides its queries, settings and ends. One line a run; of one that was not right, what was found
and the command that repeats it; its folder is kept. Exit status: 0 all right, 1 something was found, 2 usage, 130
interrupted. Results, seeds and timelines are in `build/soak`.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shlex
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from unittest.mock import patch

from demo.ground import SOURCES, STORAGES, Ground, ground
from tests import jvm_start
from tests.house.tree import ROOT
from tests.kit.servers import KafkaServer, MariaDbServer, NotInstalled, PostgresServer, SeaweedFs, started
from tests.kit.servers.connectors import ivy_folder
from tests.kit.servers.mariadb import environment as mysql_environment
from tests.kit.servers.postgres import environment as postgres_environment
from tests.kit.servers.seaweedfs import environment as environment_of_s3
from tests.mutants.mutant import DoesNotApply
from tests.soak.kinds import KINDS
from tests.soak.placed import PLACED, carry_out_placed
from tests.soak.plan import (
    ASKED_FOR,
    END_KINDS,
    HABITS,
    IN_TRANSACTION,
    KAFKA,
    MYSQL,
    POSTGRES,
    SINK_AWAY,
    SINKS,
    STATES,
    TRANSACTIONAL,
    Filter,
    Plan,
    make_plan,
)
from tests.soak.run import Result, carry_out
from tests.soak.variants import VariantError, environment, jvm_options, other_spark, package_of

ENDS_A_RUN = 25
SOAKED = ("sqlite", "etcd", "kubernetes", "postgres", "s3")
_GROUND = {"source": "files", "storage": "file", "catalog": "sqlite"}
_USUAL = {"store": "sqlite", **_GROUND}
BUILD = ROOT / "build" / "soak"


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments ask for; return the exit status."""
    given = _parsed(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        with package_of(without=given.without, package=given.package) as holder:
            members = environment(holder, archive=jvm_start.class_archive(options=jvm_options()))
            if given.placed:
                return _placed(given, members)
            with _stores(given.store) as new_store, _grounds(given) as new_ground:
                return _random(given, members, new_store, new_ground)
    except (VariantError, DoesNotApply, NotInstalled) as error:
        say(f"soak: {error}")
        return 2
    except KeyboardInterrupt:
        say("soak: interrupted; all members have ended")
        return 130


@contextmanager
def _stores(kind: str) -> Iterator[Callable[[int], str | None]]:
    """Makes the URL of an empty store for each run, by its number; None: a file in the run's folder."""
    if kind == "sqlite":
        yield lambda number: None
        return
    with tempfile.TemporaryDirectory(prefix="tenure-soak-") as folder, started(kind, Path(folder)) as url:
        place, mark, options = url.partition("?")
        if kind == "postgres":
            yield lambda number: f"{url}_{number}"  # its last option is the schema
        else:
            yield lambda number: f"{place}-{number}{mark}{options}"


@contextmanager
def _grounds(given: argparse.Namespace) -> Iterator[Callable[[Path], Ground | None]]:
    """Makes an empty ground for the run of a folder; None: the folder itself."""
    is_usual = all(getattr(given, name) == usual for name, usual in _GROUND.items())
    if is_usual and not set(TRANSACTIONAL) & set(given.sinks):
        yield lambda folder: None
        return
    with ExitStack() as stack:
        below = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenure-soak-")))
        place = stack.enter_context(ground(given.source, given.storage, below))
        if POSTGRES in given.sinks:
            url = stack.enter_context(PostgresServer(below / "postgres")).url
            stack.enter_context(patch.dict(os.environ, postgres_environment()))
            place = replace(place, database=url, params={**place.params, "database": url})
        if MYSQL in given.sinks:
            mysql = stack.enter_context(MariaDbServer(below / "mysql"))
            stack.enter_context(patch.dict(os.environ, mysql_environment()))
            place = replace(place, mysql=mysql, params={**place.params, "mysql": mysql.url.rpartition("/")[0]})
        if KAFKA in given.sinks:
            target = stack.enter_context(KafkaServer(below / "target"))
            place = replace(place, topics=target, params={**place.params, "target": target.address})
        if given.catalog == "rest":
            lake = stack.enter_context(SeaweedFs(below / "lake"))
            names, conf = (*place.connectors, "s3"), {**place.conf, "spark.jars.ivy": str(ivy_folder())}
            place = replace(place, lake=lake, connectors=tuple(dict.fromkeys(names)), conf=conf)
            stack.enter_context(patch.dict(os.environ, environment_of_s3(lake.url)))

        def of(folder: Path) -> Ground:
            if given.storage == "file":
                return replace(place, storage=f"file://{folder}/storage", output=str(folder / "output"))
            return replace(place, storage=f"{place.storage}/{folder.name}", output=f"{place.output}/{folder.name}")

        yield of


def _random(
    given: argparse.Namespace,
    members: dict[str, str],
    new_store: Callable[[int], str | None],
    new_ground: Callable[[Path], Ground | None],
) -> int:
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    habits = given.habits or (() if given.source == "files" else ("left",))  # nobody moves the records of a topic
    only = Filter(given.kinds, given.sinks, habits, given.ends_kinds, given.states)
    results: list[Result] = []
    left = given.ends
    while left > 0 or not results:
        plan = make_plan(seed + len(results), ends=min(left, given.ends_a_run), only=only)
        folder = _fresh(given.folder / f"seed-{plan.seed}")
        store, place = new_store(len(results)), new_ground(folder)
        result = carry_out(plan, folder, environment=members, keep=given.keep, store=store, ground=place)
        results.append(result)
        left -= len(plan.ends)
        _tell(result, plan_words(plan), folder)
        if not result.right:
            say(f"  again: {_again(given, plan.seed, len(plan.ends))}")
    return _summary(results)


def _placed(given: argparse.Namespace, members: dict[str, str]) -> int:
    names = list(PLACED) if "all" in given.placed else given.placed
    results = []
    for name in names:
        folder = _fresh(given.folder / f"placed-{name}")
        result = carry_out_placed(name, folder, environment=members, keep=given.keep)
        results.append(result)
        _tell(result, f"{name}: {' '.join((PLACED[name].tell.__doc__ or '').split())}", folder)
    return _summary(results)


def _tell(result: Result, what: str, folder: Path) -> None:
    ends, minutes = sum(result.ends.values()), result.seconds / 60
    say(
        f"seed {result.seed:<8}{result.word:8} {ends:3} ends in {result.seconds:4.0f} s ({ends / minutes:4.1f} a "
        f"minute), {result.batches:5} batches, {result.fed:6} events, {len(result.loud)} loud, {result.late} late: "
        f"{what}"
    )
    times = Counter(f"  {finding.kind}: {finding.text}"[:600] for finding in result.findings)
    say(*(f"{line} ({count} times)" if count > 1 else line for line, count in times.items()))
    if not result.right:
        say(f"  kept: {folder}")
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "results.jsonl").open("a") as file:
        file.write(json.dumps({**asdict(result), "what": what, "word": result.word}) + "\n")


def _summary(results: Sequence[Result]) -> int:
    kinds: Counter[str] = Counter()
    for result in results:
        kinds.update(result.ends)
    wrong = [result.seed for result in results if not result.right]
    seconds = sum(result.seconds for result in results)
    say(
        f"{len(results)} runs, {kinds.total()} ends in {seconds:.0f} s, {sum(r.batches for r in results)} batches, "
        f"{sum(r.fed for r in results)} events, {sum(len(r.loud) for r in results)} loud: "
        f"{len(wrong)} not right{': seeds ' + ', '.join(map(str, wrong)) if wrong else ''}",
        "ends: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()),
    )
    return 1 if wrong else 0


def plan_words(plan: Plan) -> str:
    """What a run consists of, in words."""
    settings = [plan.state, f"local[{plan.cores}]", *(["warm"] * plan.warm), *(["lenient"] * plan.lenient)]
    return f"{', '.join(query.name for query in plan.queries)} ({', '.join(settings)})"


def _again(given: argparse.Namespace, seed: int, ends: int) -> str:
    """The command that repeats a run."""
    words = ["--ends", str(ends), "--ends-a-run", str(ends), "--seed", str(seed)]
    for name, usual in _USUAL.items():
        words += [f"--{name}", getattr(given, name)] if getattr(given, name) != usual else []
    for name in ("kinds", "habits", "sinks", "ends_kinds", "states"):
        chosen = getattr(given, name)
        words += [f"--{name.replace('_', '-')}", *chosen] if chosen else []
    for name in ("without", "package"):
        if getattr(given, name) is not None:
            words += [f"--{name}", str(getattr(given, name))]
    spark = f" SPARK={release}" if (release := other_spark()) is not None else ""
    return f"make soak{spark} ARGS={shlex.quote(shlex.join(words))}"


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--ends", type=int, default=100, help="how many ends, over several runs")
    parser.add_argument("--seed", type=int, help="of the first run; the others follow (default: drawn)")
    parser.add_argument("--ends-a-run", type=int, default=ENDS_A_RUN, help=f"default: {ENDS_A_RUN}")
    parser.add_argument("--kinds", "--queries", nargs="+", choices=list(KINDS), default=(), help="kinds of queries")
    parser.add_argument(
        "--habits", nargs="+", choices=[*HABITS, SINK_AWAY], default=(), help="what becomes of inputs, and of targets"
    )
    parser.add_argument("--sinks", nargs="+", choices=[*SINKS, *ASKED_FOR], default=())
    parser.add_argument("--states", nargs="+", choices=STATES, default=(), help="where the state is kept")
    parser.add_argument(
        "--ends-kinds", nargs="+", choices=[*END_KINDS, IN_TRANSACTION], default=(), help="kinds of ends"
    )
    parser.add_argument("--placed", nargs="+", choices=[*PLACED, "all"], default=(), help="ends at exact points")
    parser.add_argument(
        "--store", choices=SOAKED, default="sqlite", help="of random ends; others than SQLite are started"
    )
    parser.add_argument("--source", choices=SOURCES, default="files", help="of random ends: where the inputs are")
    parser.add_argument(
        "--storage", choices=STORAGES, default="file", help="of random ends: where checkpoints and Delta tables are"
    )
    parser.add_argument(
        "--catalog", choices=("sqlite", "rest"), default="sqlite", help="of Iceberg tables; at a server: and they in S3"
    )
    parser.add_argument("--without", metavar="MUTANT", help="run a copy without what this mutant takes away")
    parser.add_argument("--package", type=Path, help="run the package in this folder, or checkout, instead")
    parser.add_argument("--keep", action="store_true", help="keep the folders of runs that are right, too")
    parser.add_argument("--folder", type=Path, default=BUILD / "runs", help="where runs are kept")
    given = parser.parse_args(arguments)
    if given.source == "kafka" and set(given.habits) & set(HABITS):
        parser.error(f"--habits is for files: nobody moves the records of a topic (but {SINK_AWAY})")
    if given.catalog == "rest" and given.storage == "s3":
        parser.error("--catalog rest is for another storage than S3: its server goes away by itself")
    return given


def _fresh(folder: Path) -> Path:
    if folder.exists():
        shutil.rmtree(folder)
    return folder.resolve()


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def say(*lines: str) -> None:
    """Print, at once: a run takes minutes."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
