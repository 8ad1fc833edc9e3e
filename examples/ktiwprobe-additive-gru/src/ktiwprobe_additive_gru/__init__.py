"""A GRU translator with additive attention, as a plugin of ktiwprobe."""
