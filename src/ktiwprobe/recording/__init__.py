"""Trainings that are not ours as runs."""
