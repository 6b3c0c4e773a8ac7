"""Training on partitions: on the workers of a Dask cluster, or one after the other here.

``scan`` cuts files into partitions of whole queries; every ranker's ``fit`` takes the result.
See ``docs/how-to/dask.md``.
"""

from __future__ import annotations

from rankine.distributed.partitions import PartitionedDataset, repartition, scan

__all__ = ["PartitionedDataset", "repartition", "scan"]
