"""Solvers, which minimise a risk (``rankine.losses``) plus a penalty.

* ``problem``: the interface between solvers and data; ``base``: what solvers return and report
* ``bundle``, ``newton``: risks of pairs or lists with an l2 penalty, to a certified gap
* ``coordinate_descent``, ``quasi_newton``: the domination loss with l1 and l2, to a certified gap
* ``cg``, ``heavy_ball``: pairwise least squares, whose optimum solves a linear system
* ``tables``, ``pair_search``: additive models, which ``newton`` solves
* ``pair_sgd``, ``pair_steps``: stochastic descent on drawn pairs
* ``one_pass``, ``one_pass_run``: online learning list by list
* ``checkpoint``: saving and resuming
"""
