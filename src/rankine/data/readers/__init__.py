"""Readers: one format each, from files to blocks of a dataset."""
