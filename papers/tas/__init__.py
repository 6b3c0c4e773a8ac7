"""Tas, Large scale ranking using stochastic gradient descent (2022): one file per figure."""
