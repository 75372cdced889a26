"""What monitoring has measured of GPUs, and what it says of who holds them without using them."""
