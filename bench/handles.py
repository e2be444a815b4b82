"""What a handle costs, beside Flink's own `ZooKeeperStateHandleStore` and beside the least that the clients need.

Real ensembles of three servers of ZooKeeper and etcd. Their contenders talk to the same server, the leader of its
ensemble, and take turns; before each turn the disk is given what others left unwritten. A state has 1 KiB.

- `zookeeper`, `etcd`: Tenure under a term, as it is set up by default: a state of 1 KiB is kept in its record.
- `postgres`, `s3`: the same on one server each.
- `..._files`: each state in a durable file, as larger ones are, and a pointer in the store.
- `flink`: Flink on the same ZooKeeper, its states in local files, which it does not force to the disk; `flink_synced`:
  with files that are. Flink has no other way, and no etcd store: all of Tenure's are compared with these two.
- `zookeeper_bare`, `etcd_bare`: the least with the client alone: one durable file, and one transaction.
  `..._bare_record`: the transaction alone, with the state in it.

`add`, `replace`, `add_drop` (in Tenure one commit; in Flink, which has none for it, `addAndLock` and
`releaseAndTryRemove`): ms for one. `get_all`, `remove_all`: ms for all `--handles`. Flink's `get_all` takes locks, it
has no other. Everything that was written is read back and compared, and after `remove_all` nothing may be left.

Ratios are ours over theirs: below 1, Tenure is faster. All figures go to `build/bench/handles.json`. Without javac or
Flink's jar its columns are left out, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.handles_bare import BareEtcd, BareZooKeeper
from bench.handles_flink import VERSION, Flink, NoFlink, prepare
from bench.handles_ours import Tenure
from bench.handles_side import PAYLOAD_BYTES, Side, write_durably
from bench.harness import RESULTS, compare, describe_machine
from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.store import CoordinationStore
from tenure.handles.store import INLINE_LIMIT
from tests.kit.servers import EtcdCluster, NotInstalled, ZooKeeperEnsemble, started

OPERATIONS = ("add", "replace", "add_drop", "get_all", "remove_all")
STORES = ("zookeeper", "etcd")
ALONE = ("postgres", "s3")
"""Stores for which neither Flink nor a bare client is measured."""
TURN = 50
"""Handles of one turn of `add`; of the other writes a fifth."""

Samples = dict[str, dict[str, list[float]]]
"""Operation -> contender -> ms."""


def one_cycle(sides: Mapping[str, Side], handles: int) -> Samples:
    """From no handle to all of them, and back, in turns."""

    def turns(work: Callable[[Side], float], *, rounds: int, per: int) -> dict[str, list[float]]:
        def contender(side: Side) -> Callable[[], float]:
            def turn() -> float:
                os.sync()
                return work(side) / per * 1000

            return turn

        contenders = {name: contender(side) for name, side in sides.items()}
        samples = compare("handles", contenders, rounds=rounds, warmup=0, unit="ms").samples
        return {name: list(taken) for name, taken in samples.items()}

    few = TURN // 5
    return {
        "add": turns(lambda side: side.add(TURN), rounds=handles // TURN, per=TURN),
        "replace": turns(lambda side: side.replace(few), rounds=len(sides), per=few),
        "add_drop": turns(lambda side: side.add_drop(few), rounds=len(sides), per=few),
        "get_all": turns(lambda side: side.get_all(), rounds=2, per=1),
        "remove_all": turns(lambda side: side.remove_all(), rounds=1, per=1),
    }


def measure(sides: Mapping[str, Side], *, rounds: int, handles: int) -> Samples:
    """Some cycles; the first one is run and not counted."""
    taken: Samples = {operation: {name: [] for name in sides} for operation in OPERATIONS}
    names = list(sides)
    for number in range(rounds + 1):
        began = time.monotonic()
        first = number % len(names)
        cycle = one_cycle({name: sides[name] for name in names[first:] + names[:first]}, handles)
        print(f"round {number} of {rounds}: {time.monotonic() - began:.0f} s", file=sys.stderr)
        if number:
            for operation, samples in cycle.items():
                for name, figures in samples.items():
                    taken[operation][name] += [round(figure, 4) for figure in figures]
    return taken


def ratios_of(medians: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Ours over theirs, by store; a contender that is not there has none."""

    def against(ours: str, theirs: Mapping[str, str]) -> dict[str, float]:
        return {
            f"{operation}_vs_{word}": round(of[ours] / of[name], 3)
            for word, name in theirs.items()
            for operation, of in medians.items()
            if name in of
        }

    flink = {"flink": "flink", "flink_synced": "flink_synced"}
    return {
        store: {
            "ratios": against(store, {**flink, "bare": f"{store}_bare", "bare_record": f"{store}_bare_record"}),
            "file_ratios": against(f"{store}_files", {**flink, "bare": f"{store}_bare"}),
        }
        for store in STORES
    }


def fsync_ms(folder: Path) -> float:
    """What a durable file alone costs here."""
    took = []
    for number in range(50):
        start = time.perf_counter()
        write_durably(folder / f"probe{number}", b"x" * PAYLOAD_BYTES)
        took.append((time.perf_counter() - start) * 1000)
    return round(statistics.median(took), 3)


def run(stack: ExitStack, folder: Path, *, rounds: int, handles: int) -> dict[str, Any]:
    """Start the servers and the contenders, measure. Raises NotInstalled."""
    clock = SystemClock()
    ensemble = stack.enter_context(ZooKeeperEnsemble(folder))
    cluster = stack.enter_context(EtcdCluster(folder))
    hosts = f"127.0.0.1:{ensemble.ports[ensemble.leader()]}"
    endpoint = cluster.endpoints[cluster.leader()]
    ensemble.create("/tenure")

    def files(name: str) -> Path:
        (made := folder / name).mkdir()
        return made

    def open_one(url: str) -> CoordinationStore:
        store = open_store(url, clock=clock)
        stack.callback(store.close)
        return store

    stores = {"zookeeper": open_one(f"zookeeper://{hosts}/tenure"), "etcd": open_one(f"etcd://{endpoint}/tenure")}
    for name in ALONE:
        stores[name] = open_one(stack.enter_context(started(name, files(f"{name}_server"))))
    sides: dict[str, Side] = {}
    for name, store in stores.items():
        for mode, limit in (("", INLINE_LIMIT), ("_files", 0)):
            full = name + mode
            sides[full] = Tenure(store, files(full), scope=full.replace("_", "-"), inline_limit=limit)
            stack.callback(sides[full].close)
    for mode in ("", "_record"):
        of: dict[str, Any] = {"top": f"/bare{mode}", "inline": bool(mode)}
        sides[f"zookeeper_bare{mode}"] = BareZooKeeper(hosts, files(f"zookeeper_bare{mode}"), **of)
        sides[f"etcd_bare{mode}"] = BareEtcd(endpoint, files(f"etcd_bare{mode}"), **of)
        stack.callback(sides[f"zookeeper_bare{mode}"].close)
        stack.callback(sides[f"etcd_bare{mode}"].close)
    missing = None
    try:
        class_path = prepare(folder)
        for name in ("flink", "flink_synced"):
            flink = Flink(hosts, files(name), class_path=class_path, synced=name == "flink_synced")
            stack.callback(flink.close)
            sides[name] = flink
    except NoFlink as why:
        missing = str(why)
    samples = measure(sides, rounds=rounds, handles=handles)
    medians = {
        operation: {name: round(statistics.median(taken), 3) for name, taken in of_one.items()}
        for operation, of_one in samples.items()
    }
    return {
        "direction": "ratios are ours / theirs: below 1, Tenure is faster",
        "modes": "ratios: states of 1 KiB in their records, as by default; file_ratios: each in a durable file, too",
        "flink": missing or f"{VERSION}; it does not force its files to the disk, `flink_synced` does",
        "stores": ratios_of(medians),
        "medians_ms": medians,
        "rounds": rounds,
        "handles": handles,
        "durable_file_ms": fsync_ms(folder),
        "samples_ms": samples,
        "machine": asdict(describe_machine()),
    }


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description="What a handle costs, beside Flink and beside the bare clients.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--handles", type=int, default=1000)
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.handles < TURN or arguments.handles % TURN:
        parser.error(f"--rounds is one or more, --handles a multiple of {TURN}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenure-bench-")))
        try:
            content = run(stack, folder, rounds=arguments.rounds, handles=arguments.handles)
        except NotInstalled as why:
            print(f"bench: {why}", file=sys.stderr)
            return 1
    print(json.dumps({name: value for name, value in content.items() if name != "samples_ms"}, indent=2))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "handles.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    if "flink" not in content["medians_ms"]["add"]:
        print(f"bench: Flink's columns are left out: {content['flink']}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
