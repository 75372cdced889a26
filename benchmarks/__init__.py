"""Scripts that print a table. Never asserts on time in the tests."""
