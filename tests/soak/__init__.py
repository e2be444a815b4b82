"""The soak: pipelines whose members are killed, stopped and ended at random, and their output against the truth."""
