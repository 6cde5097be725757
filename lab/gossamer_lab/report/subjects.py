"""Visual encodings of the subjects of a run: colours, shapes, legend, axes."""

from collections.abc import Collection

import altair as alt

from gossamer_lab.store import Run

_COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b"),
    *("#7f7f7f", "#5b5fc7", "#b3b000", "#e377c2", "#17807e", "#a50f15", "#33691e"),
    *("#c49c94", "#00acc1", "#6a3d9a", "#ff8f73", "#4e79a7"),
)
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


PLAIN = ",~r"
"""Format of an axis' labels: numbers without an exponent, 0.05 or 1,000,000."""


def axis() -> alt.Axis:
    """Return an axis for numbers."""
    return alt.Axis(format=PLAIN, grid=True, tickCount=6)


_LEGEND = alt.Legend(title=None, orient="top")


class Subjects:
    """The subjects that a chart shows."""

    def __init__(self, run: Run, drawn: Collection[str]) -> None:
        """Assign each subject the colour and shape of its index among all subjects of the run."""
        names = [server["name"] for server in run.results["servers"]]
        self.names = [name for name in names if name in drawn]
        self._ranks = [i for i, name in enumerate(names) if name in drawn]
        self.pick = alt.selection_point(name="pick", fields=["server"], bind="legend")

    def colour(self) -> alt.Color:
        """Return the colour encoding, with a clickable legend."""
        colours = [_COLOURS[i % len(_COLOURS)] for i in self._ranks]
        return alt.Color(
            "server:N",
            sort=self.names,
            scale=alt.Scale(domain=self.names, range=colours),
            legend=_LEGEND,
        )

    def shape(self) -> alt.Shape:
        """Return the shape encoding, shown in the same legend."""
        shapes = [_SHAPES[i % len(_SHAPES)] for i in self._ranks]
        scale = alt.Scale(domain=self.names, range=shapes)
        return alt.Shape("server:N", sort=self.names, scale=scale, legend=_LEGEND)

    def opacity(self) -> object:
        """Return the opacity encoding, which fades subjects that are not selected."""
        return alt.condition(self.pick, alt.value(1), alt.value(0.1))
