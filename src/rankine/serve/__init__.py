"""Serve models over HTTP, with limits on everything that a client can send."""
