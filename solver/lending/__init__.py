"""Whom to lend to now: pending jobs in classes, risk as a maximum of lines, one integer program."""
