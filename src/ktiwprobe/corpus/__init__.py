"""What is read: splits, batches, tokens, words, links, and the files they come from."""
