"""Whether forecasts keep what they say: corrected levels, tables of said and seen, a monitor online."""
