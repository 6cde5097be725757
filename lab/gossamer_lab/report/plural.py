"""Counts of things, in words."""


def plural(count: int, thing: str) -> str:
    """Return a count with its noun: 1 round, 1,200 rounds."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
