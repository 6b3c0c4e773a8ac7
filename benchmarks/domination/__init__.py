"""DominationRanker: time to a duality gap, and many topics over one matrix."""
