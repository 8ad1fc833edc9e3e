"""Files that are whole or not there, and how long jobs report their progress."""
