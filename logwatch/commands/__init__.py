"""Level 6: the commands, one module each."""
