"""Workers and children for tests of durable work: real processes, with a child that does as it is told."""
