"""The agent's process: it holds the session, contends, watches over its driver, and obeys operators."""
