"""Service times, without what slowed the server's core down or sped it up meanwhile."""

import polars as pl

SERVICE = "service_us"


def with_service_times(raw: pl.DataFrame) -> pl.DataFrame:
    """Return raw rows with service times: mean times of a request, had the core its usual speed.

    The usual one is the geometric mean of the run's beats (metronome.py); all subjects are measured
    against it. A time without a beat, or with one that cannot be, stays as it is.
    """
    if "response_mean_us" not in raw.columns:
        return raw
    beat = (pl.col("beat_ns") if "beat_ns" in raw.columns else pl.lit(None)).cast(pl.Float64)
    slow = pl.when(beat > 0).then(beat.log())
    slow = (slow - slow.mean()).fill_null(0.0).exp()
    return raw.with_columns((pl.col("response_mean_us") / slow).alias(SERVICE))
