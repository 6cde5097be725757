"""What charts of a run share: colours and shapes of its subjects, their legend, its axes."""

from collections.abc import Collection, Iterable

import altair as alt

from gossamer_lab.store import Run

_COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b"),
    *("#7f7f7f", "#5b5fc7", "#b3b000", "#e377c2", "#17807e", "#a50f15", "#33691e"),
    *("#c49c94", "#00acc1", "#6a3d9a", "#ff8f73", "#4e79a7"),
)
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


_LARGE = 10_000


def axis(values: Iterable[float]) -> alt.Axis:
    """Return an axis for numbers, large ones with the letter of their unit."""
    letters = {"format": "~s"} if max(values, default=0) >= _LARGE else {}
    return alt.Axis(grid=True, tickCount=6, **letters)


_LEGEND = alt.Legend(title=None, orient="top")


class Subjects:
    """Those that a chart shows."""

    def __init__(self, run: Run, drawn: Collection[str]) -> None:
        """Give each the colour and shape of its place among all subjects of the run."""
        names = [server["name"] for server in run.results["servers"]]
        self.names = [name for name in names if name in drawn]
        self._ranks = [i for i, name in enumerate(names) if name in drawn]
        self.pick = alt.selection_point(name="pick", fields=["server"], bind="legend")

    def colour(self) -> alt.Color:
        """Return the encoding, with a legend in which names can be picked."""
        colours = [_COLOURS[i % len(_COLOURS)] for i in self._ranks]
        return alt.Color(
            "server:N",
            sort=self.names,
            scale=alt.Scale(domain=self.names, range=colours),
            legend=_LEGEND,
        )

    def shape(self) -> alt.Shape:
        """Return the encoding, which shows in the same legend."""
        shapes = [_SHAPES[i % len(_SHAPES)] for i in self._ranks]
        scale = alt.Scale(domain=self.names, range=shapes)
        return alt.Shape("server:N", sort=self.names, scale=scale, legend=_LEGEND)

    def opacity(self) -> object:
        """Return the encoding: what is not picked is faint."""
        return alt.condition(self.pick, alt.value(1), alt.value(0.1))
