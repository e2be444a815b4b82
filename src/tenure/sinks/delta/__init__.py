"""The sink for Delta tables."""
