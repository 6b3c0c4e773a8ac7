"""Speed of reading LETOR text, compressed text, Parquet and Arrow."""
