"""Runs: their plan, servers under load, and the counters that are read."""
