"""What the documentation site is made with."""
