"""How the next leader goes on: run directories, seeds, mirrors of a standby, rehearsals."""
