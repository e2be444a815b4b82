"""The planned inputs of a batch: files, and records of Kafka; and whether a batch may run without some."""
