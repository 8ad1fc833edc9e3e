"""The paper's claims, one a module, each registered as an experiment."""
