"""The sweep of trees that are too large for a leader's own: planned, looked at, applied."""
