"""Service times, normalized for the speed of the server's core."""

import polars as pl

SERVICE = "service_us"


def with_service_times(raw: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with service times: mean response times at the core's average speed.

    The average is the geometric mean of the run's calibration loop (calibration_loop.py); all
    subjects share it. A time without a valid calibration is not normalized.
    """
    if "response_mean_us" not in raw.columns:
        return raw
    calibration = (
        pl.col("calibration_ns") if "calibration_ns" in raw.columns else pl.lit(None)
    ).cast(pl.Float64)
    slow = pl.when(calibration > 0).then(calibration.log())
    slow = (slow - slow.mean()).fill_null(0.0).exp()
    return raw.with_columns((pl.col("response_mean_us") / slow).alias(SERVICE))
