"""Exact yardsticks: the best schedule there is when every life and every arrival is known."""
