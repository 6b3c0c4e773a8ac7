"""ElasticRanker: speed, quality on purchase lists and raw logs, and memory on a long stream."""
