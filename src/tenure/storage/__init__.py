"""Where the bytes live: blobs are written once, whole and durable, or not at all."""
