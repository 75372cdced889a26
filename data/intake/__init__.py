"""What all readers of job history share: bytes to lines, rows to records, every repair and rejection told."""
