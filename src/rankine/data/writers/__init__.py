"""Writers: blocks of a dataset to a file, atomically."""
