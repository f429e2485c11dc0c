"""Level 3: HTTP: metrics, health, the JSON interface and the status page."""
