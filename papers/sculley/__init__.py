"""Sculley, Large Scale Learning to Rank (2009): one file per table or figure."""
