"""The command line: `tenure`."""
