"""A raw log of up to 10^9 rows: a generator, and training from it."""
