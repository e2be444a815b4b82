"""The JVM of Spark: its session and packages, our classes in it, its plans, and what differs between releases."""
