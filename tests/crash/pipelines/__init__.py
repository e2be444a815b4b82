"""Pipeline files of the crash tests."""
