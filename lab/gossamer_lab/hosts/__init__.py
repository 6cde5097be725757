"""Many client hosts that share a load: workers of dask.distributed, here or elsewhere."""
