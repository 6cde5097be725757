"""The command line: ``gossamer lab list|run|report|compare|doctor``."""

import json
import random
import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gossamer_lab import doctor, handicap, interruption, paths
from gossamer_lab.compare import NotComparableError, compare, show_comparison
from gossamer_lab.derived import with_derived
from gossamer_lab.experiments import EXPERIMENTS
from gossamer_lab.markdown import verdict_table
from gossamer_lab.plan import UnknownSubjectError, Wish
from gossamer_lab.progress import ShownProgress
from gossamer_lab.report.page import write_report
from gossamer_lab.run import CannotResumeError, Order, run_experiment
from gossamer_lab.servers.server import ServerFailedError
from gossamer_lab.store import NoSuchRunError, Run, load_run
from gossamer_lab.table import show

_MISUSED = 2
_INTERRUPTED = 130
_PLAIN_WIDTH = 110

app = typer.Typer(
    name="gossamer lab",
    help="Measure Gossamer's architectures and their peers on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON instead.")]


def _output() -> Console:
    """Return the console of standard output; wide enough for the table where it is no terminal."""
    return Console() if sys.stdout.isatty() else Console(width=_PLAIN_WIDTH)


def _refuse(reason: str) -> typer.Exit:
    """Say in one line what is wrong with the command."""
    print(f"gossamer lab: {reason}", file=sys.stderr)
    return typer.Exit(_MISUSED)


@app.command("list")
def list_experiments(as_json: AsJson = False) -> None:
    """Name the experiments."""
    if as_json:
        named = [
            {
                "name": experiment.name,
                "summary": experiment.summary,
                "scales": [scale.name for scale in experiment.scales],
                "points": [point.label for point in experiment.points],
                "document": asdict(experiment.document) if experiment.document else None,
                "claims": [
                    {"key": claim.key, "claim": claim.text, "rule": claim.rule}
                    for claim in experiment.claims
                ],
            }
            for experiment in EXPERIMENTS.values()
        ]
        print(json.dumps(named, indent=1))
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("experiment", "scales", "what it measures"):
        table.add_column(name)
    for experiment in EXPERIMENTS.values():
        scales = " ".join(scale.name for scale in experiment.scales)
        table.add_row(experiment.name, scales, experiment.summary)
    _output().print(table)


def _program() -> Path:
    program = paths.program()
    if not program.is_file():
        raise _refuse(f"no program at {program}: build it, or set GOSSAMER_PROGRAM")
    return program


def _order(experiment: str, scale: str, out: Path | None, wish: Wish) -> Order:
    """Check what the command line asks for."""
    if experiment not in EXPERIMENTS:
        raise _refuse(f"no experiment {experiment!r}; there are: {', '.join(EXPERIMENTS)}")
    manifest = EXPERIMENTS[experiment]
    scales = [known.name for known in manifest.scales]
    if scale not in scales:
        raise _refuse(f"no scale {scale!r} of {experiment}; there are: {', '.join(scales)}")
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    folder = out or paths.RUNS / f"{stamp}-{experiment}"
    return Order(manifest, manifest.scale(scale), _program(), folder, wish)


def _handicaps(given: list[str]) -> dict[str, float]:
    """Read who shall need more than it does."""
    try:
        return dict(map(handicap.parse, given))
    except handicap.HandicapError as error:
        raise _refuse(str(error)) from error


def _loaded(name: str) -> Run:
    """Read a run of an experiment that there is."""
    try:
        run = load_run(name)
    except NoSuchRunError as error:
        raise _refuse(str(error)) from error
    if run.results["experiment"] not in EXPERIMENTS:
        raise _refuse(f"{run.folder} is of an experiment that there no longer is")
    return run


def _analysed(name: str) -> Run:
    """Read a run, also one that was not finished, and work out what its raw rows say."""
    run = _loaded(name)
    return with_derived(run, EXPERIMENTS[run.results["experiment"]])


def _resumption(name: str) -> Order:
    """Return the order for what is left of a run."""
    run = _loaded(name)
    if run.results["complete"]:
        raise _refuse(f"{run.folder} is complete")
    manifest, method = EXPERIMENTS[run.results["experiment"]], run.results["method"]
    scale = manifest.scale(method["scale"])
    wish = Wish(
        method["seed"],
        method["handicaps"],
        method["cluster"],
        tuple(method.get("only", ())),
        method.get("least_rounds", 0),
    )
    return Order(manifest, scale, _program(), run.folder, wish, run)


def _finish(run: Run, as_json: bool) -> None:
    """Write the report; print the table and where the report is."""
    write_report(run, EXPERIMENTS[run.results["experiment"]])
    if as_json:
        print(json.dumps(run.results | {"report": str(run.report)}, indent=1, ensure_ascii=False))
        return
    console = _output()
    show(run.results, console)
    console.print(f"Report: {run.report}", style="bold", soft_wrap=True, highlight=False)


@app.command("run")
def run_command(  # noqa: PLR0913, PLR0917 (an argument an option)
    experiment: Annotated[
        str, typer.Argument(help="Its name, as `list` gives it.", show_default=False)
    ] = "",
    as_json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the data and the report.", show_default=False)
    ] = None,
    scale: Annotated[
        str, typer.Option(help="smoke, normal or paper: how long it may take.")
    ] = "normal",
    seed: Annotated[
        int | None, typer.Option(help="Of the order of measurements.", show_default="random")
    ] = None,
    handicaps: Annotated[
        list[str] | None,
        typer.Option(
            "--handicap",
            metavar="NAME=PERCENT%",
            help="Let this server need so much more CPU time, to see whether the lab sees it.",
            show_default=False,
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Measure just this server or program; may be given several times.",
            show_default="all",
        ),
    ] = None,
    cluster: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Scheduler of dask.distributed whose workers make the loads.",
            show_default="this machine",
        ),
    ] = "",
    rounds: Annotated[
        int | None,
        typer.Option(min=2, help="Make so many at the least.", show_default="as the scale has it"),
    ] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Measure what is left of this run.")
    ] = None,
) -> None:
    """Run an experiment: print its verdicts or its table, keep its data, write its report."""
    if bool(experiment) == bool(resume):
        raise _refuse("run takes the name of an experiment, or --resume RUN")
    if resume:
        order = _resumption(resume)
    else:
        dice = random.randrange(2**32) if seed is None else seed
        wish = Wish(dice, _handicaps(handicaps or []), cluster, tuple(only or ()), rounds or 0)
        order = _order(experiment, scale, out, wish)
    progress = ShownProgress(Console(stderr=True))
    try:
        with interruption.obeyed():
            run = run_experiment(order, progress)
    except ServerFailedError as error:
        print(f"gossamer lab: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    except (handicap.HandicapError, UnknownSubjectError) as error:
        raise _refuse(str(error)) from error
    except CannotResumeError as error:
        raise _refuse(f"{order.folder} cannot be resumed: {error}") from error
    except KeyboardInterrupt:
        run = None
    finally:
        progress.end()
    if run is None or not run.results["measured"]:
        print("gossamer lab: interrupted before the first measurement ended", file=sys.stderr)
        raise typer.Exit(_INTERRUPTED)
    run.save()
    _finish(run, as_json)
    if not run.results["complete"]:
        print(f"gossamer lab: to go on: gossamer lab run --resume {run.folder}", file=sys.stderr)
        raise typer.Exit(_INTERRUPTED)
    if _our_failures(run):
        raise typer.Exit(1)


def _our_failures(run: Run) -> bool:
    """Tell whether any of our own servers or programs failed, at the trial or at some point."""
    peers = set(EXPERIMENTS[run.results["experiment"]].peers)
    faults = {left["name"] for left in run.results["left_out"] if left["is_fault"]}
    failed = run.raw.filter(run.raw["ours"] & run.raw["failure"].is_not_null())
    return bool(faults - peers) or not failed.is_empty()


@app.command("report")
def report_command(
    name: Annotated[str, typer.Argument(metavar="RUN", help="Its folder or name, or: latest.")],
    as_json: AsJson = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the verdicts as a Markdown table instead.")
    ] = False,
) -> None:
    """Analyse a run again and write its report anew, without measuring."""
    run = _analysed(name)
    experiment = EXPERIMENTS[run.results["experiment"]]
    if as_markdown and as_json:
        raise _refuse("report prints either --json or --markdown")
    if as_markdown and not experiment.claims:
        raise _refuse(f"{experiment.name} has no claims, so no table of verdicts")
    run.save()
    if as_markdown:
        write_report(run, experiment)
        print(verdict_table(run.results, experiment))
    else:
        _finish(run, as_json)


@app.command("compare")
def compare_command(
    before: Annotated[str, typer.Argument(metavar="RUN", help="The earlier run.")],
    after: Annotated[str, typer.Argument(metavar="RUN", help="The later run.")],
    as_json: AsJson = False,
) -> None:
    """Say what changed between two runs of an experiment; status 1 if anything did."""
    try:
        found = compare(_analysed(before), _analysed(after))
    except NotComparableError as error:
        raise _refuse(str(error)) from error
    if as_json:
        print(json.dumps(found.as_dict(), indent=1, ensure_ascii=False))
    else:
        show_comparison(found, _output())
    if found.flagged:
        raise typer.Exit(1)


@app.command("doctor")
def doctor_command(as_json: AsJson = False) -> None:
    """Say what this machine allows, what it limits, and what is missing."""
    with interruption.obeyed():
        findings = doctor.examine()
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1, ensure_ascii=False))
    else:
        doctor.show(findings, _output())


def main() -> None:
    """Run the command line."""
    app(prog_name="gossamer lab")
