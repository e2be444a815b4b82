"""The driver's process: runs the streams of a pipeline under the terms of its member."""
