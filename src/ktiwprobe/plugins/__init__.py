"""What a plugin is to the core: hooks, the registry, options, protocols."""
