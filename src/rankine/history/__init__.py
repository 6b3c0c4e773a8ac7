"""Features computed from past events: click rates, counts, recency.

The offline pass over a log and the server share one compiled kernel and one state.
"""
