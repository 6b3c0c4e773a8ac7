"""Measured claims: one file per subject, results as JSON beside the machine's description."""
