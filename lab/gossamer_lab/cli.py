"""The command line: ``gossamer lab list|run|report|publish|compare|doctor``."""

import json
import random
import sys
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gossamer_lab import doctor, paths
from gossamer_lab.experiments import EXPERIMENTS
from gossamer_lab.experiments.manifest import Experiment
from gossamer_lab.measuring import interruption, overhead
from gossamer_lab.measuring.plan import RunOptions, UnknownSubjectError
from gossamer_lab.measuring.progress import ConsoleProgress
from gossamer_lab.measuring.run import CannotResumeError, RunRequest, run_experiment
from gossamer_lab.preparation import PreparationError, prepare
from gossamer_lab.report import findings
from gossamer_lab.report.derived import with_derived
from gossamer_lab.report.description import expected_seconds, show_experiment, untestable
from gossamer_lab.report.page import write_report
from gossamer_lab.report.publish import NotPublishableError, publish, published
from gossamer_lab.report.table import show
from gossamer_lab.servers.server import ServerFailedError
from gossamer_lab.statistics.comparison import NotComparableError, compare, show_comparison
from gossamer_lab.store import NoSuchRunError, Run, is_finished, load_run

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

AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]


def _output() -> Console:
    """Return the console of standard output; wide enough for the table if it is not a terminal."""
    return Console() if sys.stdout.isatty() else Console(width=_PLAIN_WIDTH)


def _refuse(reason: str) -> typer.Exit:
    """Print what is wrong with the command, in one line."""
    print(f"gossamer lab: {reason}", file=sys.stderr)
    return typer.Exit(_MISUSED)


def _known(name: str) -> Experiment:
    """Return the experiment of that name."""
    if name not in EXPERIMENTS:
        raise _refuse(f"no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


def _details(experiment: Experiment) -> dict[str, object]:
    """Return what `list` tells of one experiment only."""
    seconds = {scale.name: expected_seconds(experiment, scale) for scale in experiment.scales}
    return {"expected_seconds": seconds, "untestable": untestable(experiment)}


@app.command("list")
def list_experiments(
    experiment: Annotated[
        str, typer.Argument(help="Describe this experiment.", show_default=False)
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the experiments, or the claims, durations and limits of one."""
    chosen = [_known(experiment)] if experiment else list(EXPERIMENTS.values())
    if as_json:
        named = [
            {
                "name": known.name,
                "summary": known.summary,
                "scales": [scale.name for scale in known.scales],
                "points": [point.label for point in known.points],
                "document": asdict(known.document) if known.document else None,
                "claims": [
                    {"key": claim.key, "claim": claim.text, "rule": claim.rule}
                    for claim in known.claims
                ],
            }
            | (_details(known) if experiment else {})
            for known in chosen
        ]
        print(json.dumps(named, indent=1))
        return
    if experiment:
        show_experiment(chosen[0], _output())
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("experiment", "scales", "what it measures"):
        table.add_column(name)
    for known in chosen:
        scales = " ".join(scale.name for scale in known.scales)
        table.add_row(known.name, scales, known.summary)
    _output().print(table)


def _program() -> Path:
    program = paths.program()
    if not program.is_file():
        raise _refuse(f"no program at {program}: build it, or set GOSSAMER_PROGRAM")
    return program


def _check_unused(folder: Path) -> None:
    """Refuse a folder whose run would be overwritten."""
    if folder.exists() and not folder.is_dir():
        raise _refuse(f"{folder} is not a folder")
    finished = is_finished(folder)
    if finished:
        raise _refuse(f"{folder} contains a finished run: choose another folder, or delete it")
    if finished is not None:
        raise _refuse(
            f"{folder} contains an unfinished run: resume it with --resume {folder}, or choose "
            "another folder"
        )


def _run_request(experiment: str, scale: str, out: Path | None, options: RunOptions) -> RunRequest:
    """Check the arguments of the command line."""
    manifest = _known(experiment)
    scales = [known.name for known in manifest.scales]
    if scale not in scales:
        raise _refuse(f"no scale {scale!r} of {experiment}; there are: {', '.join(scales)}")
    if out:
        _check_unused(out)
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    folder = out or paths.RUNS / f"{stamp}-{experiment}"
    return RunRequest(manifest, manifest.scale(scale), _program(), folder, options)


def _parse_overheads(values: list[str]) -> dict[str, float]:
    """Parse the values of --inject-overhead."""
    try:
        return dict(map(overhead.parse, values))
    except overhead.OverheadError as error:
        raise _refuse(str(error)) from error


def _load(name: str) -> Run:
    """Load a run of an experiment that still exists."""
    try:
        run = load_run(name)
    except NoSuchRunError as error:
        raise _refuse(str(error)) from error
    if run.results["experiment"] not in EXPERIMENTS:
        raise _refuse(f"{run.folder}: its experiment no longer exists")
    return run


def _load_analysed(name: str) -> Run:
    """Load a run, complete or not, and derive its results from the raw rows."""
    run = _load(name)
    return with_derived(run, EXPERIMENTS[run.results["experiment"]])


def _resume_request(name: str) -> RunRequest:
    """Return the request for the rest of a run."""
    run = _load(name)
    if run.results["complete"]:
        raise _refuse(f"{run.folder} is complete")
    manifest, method = EXPERIMENTS[run.results["experiment"]], run.results["method"]
    scale = manifest.scale(method["scale"])
    options = RunOptions(
        method["seed"],
        method["injected_overhead"],
        method["cluster"],
        tuple(method.get("only", ())),
        method["rounds"],
    )
    return RunRequest(manifest, scale, _program(), run.folder, options, run)


def _prepare(request: RunRequest) -> None:
    """Build and install what the experiment needs."""

    def say(words: str) -> None:
        print(f"gossamer lab: {words}", file=sys.stderr)

    try:
        prepare(request.experiment, request.options.cluster, say)
    except PreparationError as error:
        raise _refuse(str(error)) from error


def _finish(run: Run, as_json: bool) -> None:
    """Write the report; print the table and the path of the report."""
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
        str, typer.Argument(help="Name of an experiment, see `list`.", show_default=False)
    ] = "",
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for data and report, without a run.", show_default=False),
    ] = None,
    scale: Annotated[
        str, typer.Option(help="Duration of the run: smoke, normal or paper.")
    ] = "normal",
    seed: Annotated[
        int | None, typer.Option(help="Seed of the order of measurements.", show_default="random")
    ] = None,
    overheads: Annotated[
        list[str] | None,
        typer.Option(
            "--inject-overhead",
            metavar="NAME=PERCENT%",
            help="Make this server use more CPU time, to test whether `compare` detects it.",
            show_default=False,
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Measure only this server or program; may be repeated.",
            show_default="all",
        ),
    ] = None,
    cluster: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="dask.distributed scheduler whose workers generate the loads.",
            show_default="this machine",
        ),
    ] = "",
    rounds: Annotated[
        int | None,
        typer.Option(min=2, help="Number of rounds.", show_default="that of the scale"),
    ] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Resume this interrupted run.")
    ] = None,
) -> None:
    """Run an experiment: print its verdicts or its table, store its data, write its report."""
    if bool(experiment) == bool(resume):
        raise _refuse("run takes either the name of an experiment or --resume RUN")
    if resume:
        request = _resume_request(resume)
    else:
        chosen_seed = random.randrange(2**32) if seed is None else seed
        options = RunOptions(
            chosen_seed, _parse_overheads(overheads or []), cluster, tuple(only or ()), rounds or 0
        )
        request = _run_request(experiment, scale, out, options)
    _prepare(request)
    progress = ConsoleProgress(Console(stderr=True))
    try:
        with interruption.deferred():
            run = run_experiment(request, progress)
    except ServerFailedError as error:
        print(f"gossamer lab: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    except (overhead.OverheadError, UnknownSubjectError) as error:
        raise _refuse(str(error)) from error
    except CannotResumeError as error:
        raise _refuse(f"{request.folder} cannot be resumed: {error}") from error
    except KeyboardInterrupt:
        run = None
    finally:
        progress.end()
    if run is None or not run.results["measured"]:
        print(
            "gossamer lab: interrupted before the first measurement was complete", file=sys.stderr
        )
        raise typer.Exit(_INTERRUPTED)
    run.save()
    _finish(run, as_json)
    if not run.results["complete"]:
        print(f"gossamer lab: to resume: gossamer lab run --resume {run.folder}", file=sys.stderr)
        raise typer.Exit(_INTERRUPTED)
    if _our_failures(run):
        raise typer.Exit(1)


def _our_failures(run: Run) -> bool:
    """Return whether any of our own servers or programs failed, at its start or at a point."""
    peers = set(EXPERIMENTS[run.results["experiment"]].peers)
    errors = {skipped["name"] for skipped in run.results["skipped"] if skipped["is_error"]}
    failed = run.raw.filter(run.raw["ours"] & run.raw["failure"].is_not_null())
    return bool(errors - peers) or not failed.is_empty()


def _published(name: str) -> Run:
    """Return the published run of an experiment; its report is written among the runs."""
    rows = paths.DOCS / findings.ROWS
    if (run := published(rows, name)) is None:
        raise _refuse(f"no published run of {name}: no rows in {rows / name}")
    return replace(run, folder=paths.RUNS / f"published-{name}")


@app.command("report")
def report_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="Folder or name of a run, or: latest; or an experiment, for its published rows.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Analyse a run again and regenerate its report, without measuring."""
    run = _published(name) if name in EXPERIMENTS else _load_analysed(name)
    run.save()
    _finish(run, as_json)


@app.command("publish")
def publish_command(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN...", help="Runs to publish; none: only write the page again."),
    ] = None,
    into: Annotated[
        Path, typer.Option(help="Folder of the page.", show_default="docs of this checkout")
    ] = paths.DOCS,
) -> None:
    """Store the raw rows of runs beside the page of findings, and write the page from all rows.

    A second run of an experiment is compared with the first.
    """
    try:
        publish([_load(name) for name in runs or ()], into / findings.ROWS)
    except NotPublishableError as error:
        raise _refuse(str(error)) from error
    method = paths.DOCS / findings.ROWS / findings.METHOD
    print(findings.write_findings(into, method.read_text()))


@app.command("compare")
def compare_command(
    before: Annotated[str, typer.Argument(metavar="RUN", help="The earlier run.")],
    after: Annotated[str, typer.Argument(metavar="RUN", help="The later run.")],
    as_json: AsJson = False,
) -> None:
    """Compare two runs of an experiment; exit status 1 if anything changed."""
    try:
        found = compare(_load_analysed(before), _load_analysed(after))
    except NotComparableError as error:
        raise _refuse(str(error)) from error
    if as_json:
        print(json.dumps(found.as_dict(), indent=1, ensure_ascii=False))
    else:
        show_comparison(found, _output())
    if found.significant:
        raise typer.Exit(1)


@app.command("doctor")
def doctor_command(as_json: AsJson = False) -> None:
    """Check this machine: its limits, and which programs are missing."""
    with interruption.deferred():
        found = doctor.run_checks()
    if as_json:
        print(json.dumps([asdict(finding) for finding in found], indent=1, ensure_ascii=False))
    else:
        doctor.show(found, _output())


def main() -> None:
    """Run the command line."""
    app(prog_name="gossamer lab")
