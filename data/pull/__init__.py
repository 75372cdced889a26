"""Programs of a cluster asked for what they know, one at a time."""
