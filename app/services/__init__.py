"""What the application does, one file per arrow of the loop (docs/architecture.md)."""
