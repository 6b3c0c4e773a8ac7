"""ElasticRanker: speed, quality on purchase lists, and memory on a long stream."""
