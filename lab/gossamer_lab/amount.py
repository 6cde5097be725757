"""Numbers of things, in words."""


def amount(count: int, thing: str) -> str:
    """Return how many things there are: 1 round, 1,200 rounds."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
