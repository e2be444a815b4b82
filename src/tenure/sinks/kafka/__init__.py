"""The sink for topics of Kafka."""
