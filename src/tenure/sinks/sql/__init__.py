"""What the sinks for databases share: the ledger's rules, the staging tables, the order of the steps."""
