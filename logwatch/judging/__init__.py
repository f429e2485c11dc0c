"""Levels 1 and 2: cycles judged, incidents found and explained. Pure: no clock, files, threads or logging."""
