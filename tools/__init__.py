"""Tools of the project: nothing here is installed."""
