"""rankine beside other libraries: one environment, one run, one machine, stored as ratios."""
