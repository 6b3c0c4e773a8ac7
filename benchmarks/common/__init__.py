"""Machine description, timing, generated workloads, real data sets, peers and drawing."""
