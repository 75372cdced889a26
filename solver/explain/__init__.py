"""Why jobs wait: the reason that binds, what was found, what would change it, when they can start."""
