"""`tenure.lead` and `tenure.read`: leadership, handles and records for notebooks and plain Python services."""
