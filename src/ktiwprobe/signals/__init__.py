"""Values over the cells of a split: files, the gold alignment, sub-words pooled into words."""
