"""What lets a standby continue after a leader: run directories, seeds, mirrors and rehearsals."""
