"""The sink for plain files."""
