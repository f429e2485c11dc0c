"""Level 3: where bytes come in: followed files, pipes, the journal, archives, whole logs in bulk."""
