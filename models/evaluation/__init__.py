"""How good forecasts were on a record, against baselines, in one document."""
