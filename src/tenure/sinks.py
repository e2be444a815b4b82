"""The sinks that a pipeline file names: `from tenure.sinks import Delta, Foreach`."""
