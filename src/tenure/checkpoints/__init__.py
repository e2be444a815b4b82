"""Checkpoints: all batches before N are in the sink, and batch N is planned with these offsets."""
