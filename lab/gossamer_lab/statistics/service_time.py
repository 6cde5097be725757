"""Servicing times, normalized for the speed of the server's core."""

import polars as pl

SERVICE = "service_us"
SERVICING = "servicing_us"
"""Column of the servicing time as measured: with the connect, and with who still waits."""


def with_service_times(raw: pl.DataFrame, *, is_corrected: bool = True) -> pl.DataFrame:
    """Return the rows with service times: servicing times at the core's average speed.

    The average is the geometric mean of the run's calibration loop (calibration_loop.py); all
    subjects share it. A time without a valid calibration is not normalized, and without
    `is_corrected` none is.
    """
    if SERVICING not in raw.columns:
        return raw
    if not is_corrected or "calibration_ns" not in raw.columns:
        return raw.with_columns(pl.col(SERVICING).alias(SERVICE))
    calibration = pl.col("calibration_ns").cast(pl.Float64)
    slow = pl.when(calibration > 0).then(calibration.log())
    slow = (slow - slow.mean()).fill_null(0.0).exp()
    return raw.with_columns((pl.col(SERVICING) / slow).alias(SERVICE))
