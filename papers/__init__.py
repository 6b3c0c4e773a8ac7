"""The figures and tables of five papers, measured again."""
