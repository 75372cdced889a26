"""Enforces on one GPU node what the control plane wants there, and says what is really in force."""

__version__ = "0.1.0"
