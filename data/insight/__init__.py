"""A look at a history before it is trusted: what is in it, and what it can and cannot support."""
