"""What a coordination store promises, and what is built on it once, for every store."""
