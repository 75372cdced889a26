"""Fixtures of all tests."""

pytest_plugins = ["command", "databases", "service"]
