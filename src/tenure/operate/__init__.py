"""What operators see of a scope, and what they ask of it."""
