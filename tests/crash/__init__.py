"""Real members, really killed and paused; the output against a truth computed without Spark."""
