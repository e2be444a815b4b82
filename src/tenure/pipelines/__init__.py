"""What a user declares, and its life without Spark."""
