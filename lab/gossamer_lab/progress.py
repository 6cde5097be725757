"""How a run gets on: a bar with the time left on a terminal, plain lines elsewhere."""

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from gossamer_lab.amount import amount
from gossamer_lab.experiment import Case, Point
from gossamer_lab.measure import Row
from gossamer_lab.plan import Plan
from gossamer_lab.report.words import lengths

_TRUST_S = 10.0
"""For so long the plan's own pace counts as much as the one that is seen."""


def minutes(seconds: float) -> str:
    """Return a duration as m:ss."""
    whole = max(round(seconds), 0)
    return f"{whole // 60}:{whole % 60:02}"


def _figures_of(row: Row, point: Point | Case) -> str:
    """Return what is said of a measurement in a line."""
    if isinstance(point, Case):
        return ", ".join(f"{name} {row[name]:,.1f}" for name in point.columns)
    cpu = row["server_cpu_us_per_request"]
    cost = "no request answered" if cpu is None else f"{cpu:.2f} µs of CPU a request"
    errors = f", {amount(row['errors'], 'error')}" if row["errors"] else ""
    void = f", {row['void']}" if row.get("void") else ""
    again = f", measured again: {row['hosts_died']} died" if row.get("hosts_died") else ""
    rate = row["throughput_per_s"]
    speed = "nothing measured" if rate is None else f"{rate:,.0f} requests/s, {cost}"
    return f"{speed}{errors}{void}{again}"


def _rounds_of(plan: Plan) -> str:
    """Return how many rounds there will be, in words."""
    least = f"{plan.least_rounds} to " if plan.most_rounds > plan.least_rounds else ""
    return f"{least}{amount(plan.most_rounds, 'round')}"


class ShownProgress:
    """Shows a run on a console, usually that of standard error."""

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

    def begin(self, plan: Plan, done: int, planned: int) -> None:
        """Say what will be measured, and start the bar; some steps may be done already."""
        self._plan, self._planned = plan, planned
        self._expected = list(map(plan.all_of, plan.steps))
        self._done = self._resumed_at = done
        self.start()
        say = self._console.print
        for left_out in plan.left_out:
            style = "bold red" if left_out.is_fault else "yellow"
            say(f"left out: {left_out.name}: {left_out.reason}", style=style, markup=False)
        measured = {step.point for step in plan.steps}
        loads = [plan.length_of(point) for point in measured if isinstance(point, Point)]
        say(
            f"measuring {', '.join(plan.subjects)}: {amount(len(measured), 'point')}, "
            f"{_rounds_of(plan)}, {f'{lengths(loads)} each, ' if loads else ''}"
            f"about {minutes(self._left_s())} in all"
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
                auto_refresh=False,  # no second thread: processes are forked from this one
                transient=True,
            )
            self._bar.start()
            first = plan.steps[min(done, len(plan.steps) - 1)]
            self._task = self._bar.add_task(
                f"{first.server}: {first.point.label}", total=planned, left="?"
            )
            self.tick()

    def start(self) -> None:
        """Count the time from now on: what comes before the first measurement is over."""
        self._began = self._step_began = time.monotonic()

    def tick(self) -> None:
        """Bring the time left up to date."""
        if self._bar:
            self._bar.update(self._task, completed=self._done, left=minutes(self._left_s()))
            self._bar.refresh()

    def done(self, row: Row, planned: int) -> None:
        """Count a step; name the next one, of so many as far as is known."""
        assert self._plan
        further, self._planned = planned > self._planned, planned
        step = self._plan.steps[self._done]
        self._done += 1
        self._step_began = time.monotonic()
        if self._bar:
            if self._done < planned:
                following = self._plan.steps[self._done]
                description = f"{following.server}: {following.point.label}"
                self._bar.update(self._task, description=description, total=planned)
            self.tick()
        if row["failure"]:
            self._line(f"{step.server}: {step.point.label}: failed: {row['failure']}", "bold red")
        elif not self._bar:
            self._line(f"{step.server}: {step.point.label}: {_figures_of(row, step.point)}")
        if further:
            self._console.print("figures vary more than they should: one more round")

    def end(self) -> None:
        """Take the bar away."""
        if self._bar:
            self._bar.stop()
            self._bar = None

    def _line(self, text: str, style: str | None = None) -> None:
        """Print a line with the number of its step."""
        assert self._plan
        at = f"[{self._done}/{self._planned}, {minutes(self._left_s())} left] "
        self._console.print(at + text, style=style, markup=False, soft_wrap=True)

    def _left_s(self) -> float:
        """Estimate the time left: by the plan, at the pace of what was measured so far."""
        past_s = sum(self._expected[self._resumed_at : self._done]) + _TRUST_S
        pace = (self._step_began - self._began + _TRUST_S) / past_s
        left_s = sum(self._expected[self._done : self._planned])
        return left_s * pace - (time.monotonic() - self._step_began)
