"""What lets a standby continue after a leader: takeovers of queries, mirrors, snapshots and rehearsals."""
