"""What the pools will ask for: arrivals and GPUs per pool and window."""
