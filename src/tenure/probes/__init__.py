"""What an agent answers over HTTP: probes and metrics."""
