"""The lowest layer: errors, transform specs, checks, atomic files and safe text."""
