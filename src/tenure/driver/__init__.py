"""The driver's process: runs Spark and the streams of a pipeline under the terms of its member."""
