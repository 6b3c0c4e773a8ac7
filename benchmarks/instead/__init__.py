"""rankine beside what a user would pick instead, on the same rows in one run."""
