"""Results: how a pipeline ended; dirty until everything that it left is cleaned up, then clean."""
