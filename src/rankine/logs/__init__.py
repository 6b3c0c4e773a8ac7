"""Raw logs: what users saw, clicked and bought."""
