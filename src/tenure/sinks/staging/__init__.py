"""The staging that sinks share: files of a batch that nothing names yet."""
