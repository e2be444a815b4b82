"""The warden's process: ends the session of a dead agent, after the processes of its drivers."""
