"""The pipeline that a user declares, and its loading. Nothing here starts Spark."""
