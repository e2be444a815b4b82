"""The page for operators: all pipelines of a store, and one pipeline, live. Read-only, unless a token allows more."""
