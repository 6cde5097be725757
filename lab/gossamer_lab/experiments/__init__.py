"""The experiments, one module each."""

from gossamer_lab.experiment import Experiment
from gossamer_lab.experiments.quick import QUICK

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (QUICK,)}
