"""Any Hugging Face attention model: its attention read, replaced and trained like that of a model of our own."""
