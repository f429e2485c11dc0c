"""Puts this folder on the path, so that its tests and those of `web/` share `outlet_items`."""
