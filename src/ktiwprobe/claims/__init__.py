"""Experiments: a claim, what to run for it, and what follows."""
