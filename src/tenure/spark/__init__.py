"""What all rooms of Spark's process share: the errors of Spark, and the threads that serve its calls into Python."""
