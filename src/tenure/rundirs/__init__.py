"""Spark's checkpoint directory of one attempt of a member: its logs, its state files, its seeds."""
