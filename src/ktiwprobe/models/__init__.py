"""How a model takes an attention, and the one place that scores what it predicts."""
