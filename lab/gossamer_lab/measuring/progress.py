"""Shows the progress of a run: a bar on a terminal, plain lines elsewhere."""

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from gossamer_lab.experiments.manifest import Case, Point
from gossamer_lab.measuring.measure import Row
from gossamer_lab.measuring.plan import Plan
from gossamer_lab.report.plural import plural
from gossamer_lab.report.text import duration_range

_PLAN_WEIGHT_S = 10.0
"""Weight of the planned pace in the estimate of the time left, in seconds of observation."""


def minutes(seconds: float) -> str:
    """Return a duration as m:ss."""
    whole = max(round(seconds), 0)
    return f"{whole // 60}:{whole % 60:02}"


def _summary(row: Row, point: Point | Case) -> str:
    """Return the result of a measurement in one line."""
    if isinstance(point, Case):
        told = (name for name in point.columns if row[name] is not None)
        return ", ".join(f"{name} {row[name]:,.1f}" for name in told)
    cpu = row["server_cpu_us_per_request"]
    cost = "no responses" if cpu is None else f"{cpu:.2f} µs of CPU per request"
    errors = f", {plural(row['errors'], 'error')}" if row["errors"] else ""
    invalid = f", {row['invalid']}" if row.get("invalid") else ""
    repeats = f", repeated: {row['hosts_died']} died" if row.get("hosts_died") else ""
    rate = row["throughput_per_s"]
    speed = "no measurement" if rate is None else f"{rate:,.0f} requests/s, {cost}"
    return f"{speed}{errors}{invalid}{repeats}"


class ConsoleProgress:
    """Shows the progress of a run on a console, usually that of standard error."""

    def __init__(self, console: Console) -> None:
        """Show nothing yet."""
        self._console = console
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._plan: Plan | None = None
        self._expected: list[float] = []
        self._done = 0
        self._planned = 0
        self._resumed_at = 0
        self._began = 0.0
        self._step_began = 0.0

    def begin(self, plan: Plan, done: int) -> None:
        """Print the plan and start the bar; some steps may have been measured before."""
        planned = len(plan.steps)
        self._plan, self._planned = plan, planned
        self._expected = list(map(plan.step_seconds, plan.steps))
        self._done = self._resumed_at = done
        self.start()
        say = self._console.print
        for skipped in plan.skipped:
            style = "bold red" if skipped.is_error else "yellow"
            say(f"skipped: {skipped.name}: {skipped.reason}", style=style, markup=False)
        measured = {step.point for step in plan.steps}
        loads = [plan.load_seconds(point) for point in measured if isinstance(point, Point)]
        say(
            f"measuring {', '.join(plan.subjects)}: {plural(len(measured), 'point')}, "
            f"{plural(plan.rounds, 'round')}, {f'{duration_range(loads)} each, ' if loads else ''}"
            f"about {minutes(self._left_s())} in total"
            + (f", {done} of {planned} measured before" if done else ""),
            markup=False,
        )
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                MofNCompleteColumn(),
                TextColumn("{task.fields[left]} left"),
                console=self._console,
                auto_refresh=False,  # no second thread: this one forks
                transient=True,
            )
            self._bar.start()
            first = plan.steps[min(done, len(plan.steps) - 1)]
            self._task = self._bar.add_task(
                f"{first.server}: {first.point.label}", total=planned, left="?"
            )
            self.tick()

    def start(self) -> None:
        """Start the clock: preparations are complete."""
        self._began = self._step_began = time.monotonic()

    def tick(self) -> None:
        """Update the time left."""
        if self._bar:
            self._bar.update(self._task, completed=self._done, left=minutes(self._left_s()))
            self._bar.refresh()

    def done(self, row: Row) -> None:
        """Count a step and show the next one."""
        assert self._plan
        step = self._plan.steps[self._done]
        self._done += 1
        self._step_began = time.monotonic()
        if self._bar:
            if self._done < self._planned:
                following = self._plan.steps[self._done]
                description = f"{following.server}: {following.point.label}"
                self._bar.update(self._task, description=description)
            self.tick()
        if row["failure"]:
            self._line(f"{step.server}: {step.point.label}: failed: {row['failure']}", "bold red")
        elif not self._bar:
            self._line(f"{step.server}: {step.point.label}: {_summary(row, step.point)}")

    def end(self) -> None:
        """Remove the bar."""
        if self._bar:
            self._bar.stop()
            self._bar = None

    def _line(self, text: str, style: str | None = None) -> None:
        """Print a line with the number of its step."""
        assert self._plan
        at = f"[{self._done}/{self._planned}, {minutes(self._left_s())} left] "
        self._console.print(at + text, style=style, markup=False, soft_wrap=True)

    def _left_s(self) -> float:
        """Estimate the time left from the plan and the pace so far."""
        past_s = sum(self._expected[self._resumed_at : self._done]) + _PLAN_WEIGHT_S
        pace = (self._step_began - self._began + _PLAN_WEIGHT_S) / past_s
        left_s = sum(self._expected[self._done : self._planned])
        return left_s * pace - (time.monotonic() - self._step_began)
