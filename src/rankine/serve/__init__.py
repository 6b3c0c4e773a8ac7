"""The server: models behind HTTP, with limits on everything a client can send."""
