"""`tenure run`: one member, until its pipeline is done or a signal stops it."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer

from tenure.assembly import Run, assemble
from tenure.cli.log_format import use_json
from tenure.cli.narrator import Narrator
from tenure.cli.options import takes_settings
from tenure.cli.output import wait_no_more
from tenure.cli.signals import stop_on_signals
from tenure.clock import SystemClock
from tenure.errors import TenureError
from tenure.settings import Settings


@takes_settings(
    *("store", "storage", "scope", "params", "conf", "master", "connector", "packages", "jars", "py_files", "submit"),
    *("ttl", "member", "until_idle", "final", "new_stream", "drop_stream", "changed_query", "changed_source"),
    *("changed_zone", "short_batch", "batch_attempts", "away_limit", "stop_patience", "priority", "nofailover"),
    *("on_store_loss", "standby", "http", "spark_log", "event_log", "log_format"),
)
def run(
    pipeline_file: Annotated[str, typer.Argument(metavar="PIPELINE.py", help="The file that declares the pipeline.")],
    *,
    settings: Settings,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when the sources have no more input.")] = False,
    final: Annotated[
        bool, typer.Option("--final", help="End the pipeline for good when the sources have no more input.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no line for batches and waiting.")] = False,
) -> None:
    """Run one member of a pipeline. Of several members, one leads and the others stand by.

    Example: tenure run flights.py --store sqlite:///srv/ha.db --storage file:///srv/storage
    """
    clock = SystemClock()
    if settings.log_format == "json":
        use_json(clock)
    stop = threading.Event()
    narrator = Narrator(clock=clock, quiet=quiet)
    narrator.wait("waits for the pipeline file and the store")
    with stop_on_signals(stop, clock=clock) as signalled:
        assembled = assemble(
            settings,
            Run(pipeline_file, until_idle=until_idle, final=final),
            subscribers=(narrator,),
            clock=clock,
        )
        try:
            assembled.member.run(stop=stop)
        except KeyboardInterrupt:
            assembled.kill()  # does not wait for a batch that hangs
            raise
        except TenureError as error:
            assembled.ended(error)
            raise
        finally:
            assembled.close()
            wait_no_more()
    if signal.SIGINT in signalled:
        raise typer.Exit(130)
