"""The words between an agent and its driver, and what both processes must agree on."""
