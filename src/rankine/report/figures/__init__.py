"""The numbers behind every picture, as plain data; each file holds one figure."""
