"""Measured claims: one file per subject, results as JSON with a description of the machine."""
