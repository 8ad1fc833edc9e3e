"""A trained model with its history as a directory: what it is made of, and which runs belong together."""
