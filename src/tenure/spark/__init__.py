"""Shared by the rooms of Spark's process: the errors of Spark, and the threads that serve its calls into Python."""
