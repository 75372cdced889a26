"""The store: the only package that holds SQL."""
