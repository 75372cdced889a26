"""Decisions: the reference, the own lane, the policies, and the check of what they produced."""
