"""The experiments of Freno, Saveski, Jenatton and Archambeau, KDD 2015."""
