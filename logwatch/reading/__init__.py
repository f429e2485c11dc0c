"""Level 2: bytes to lines to frames to records to cycles; pure."""
