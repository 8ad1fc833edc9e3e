"""From a model to its signals: definitions, checks of the model, storage with the run."""
