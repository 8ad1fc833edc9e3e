"""From a recipe to a run, one at a time or many at once."""
