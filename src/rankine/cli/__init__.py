"""The command line: one file per command; files that start with an underscore are shared parts."""
