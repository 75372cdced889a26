"""The loop under a virtual clock: events, the state of the cluster, and the report."""
