"""Results: how a pipeline ended; dirty until its remains are removed, then clean."""
