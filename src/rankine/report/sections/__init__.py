"""Figures into words and pictures; each file holds one section of the page."""
