"""Declarations: what the last leader of a scope ran, and whether another pipeline file may go on with it."""
