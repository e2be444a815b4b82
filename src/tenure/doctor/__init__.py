"""`tenure doctor`: whether a member could lead here, and what would go wrong later. Nothing that it writes stays."""
