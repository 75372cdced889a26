"""Kubernetes's words: quantities, resources, owners, conditions, and what they say of jobs and nodes."""
