"""Real text: where data sets are, how their files are read, and the tasks made of them."""
