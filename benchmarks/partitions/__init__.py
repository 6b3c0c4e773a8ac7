"""Training on partitions with Dask: cost of a row, a round and a whole fit."""
