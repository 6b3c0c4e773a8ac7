"""Readers of the file formats; ``rankine.data.formats`` says what a reader provides."""
