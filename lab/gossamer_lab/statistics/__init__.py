"""Estimates over the rounds of a run: intervals, fits, comparisons of runs."""
