"""The agent's process: it holds the session, contends for terms, supervises its driver, and obeys operators."""
