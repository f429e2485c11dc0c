"""Level 3: what a replay leaves behind: a summary for people and programs, files, a picture."""
