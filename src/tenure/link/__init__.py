"""The messages between an agent and its driver, and the facts on which both processes must agree."""
