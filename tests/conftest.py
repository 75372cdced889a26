"""Fixtures of all tests."""

pytest_plugins = ["databases", "service"]
