"""Many client hosts: workers of dask.distributed, here or elsewhere, that share a load."""
