"""What-ifs: the past, or futures drawn from it, replayed as it is and changed, with the same luck in both."""
