"""Level 3: where results leave the house: metrics, state, alerts, reports, pages."""
