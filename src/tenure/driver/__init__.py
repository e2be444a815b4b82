"""The driver's process: Spark, the streams of a pipeline, and what a leadership does with them."""
