"""The scikit-learn door: one file per system."""
