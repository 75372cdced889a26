"""Durable work: runs that survive the death of the process that carries them out."""
