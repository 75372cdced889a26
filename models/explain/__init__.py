"""Why a forecast says what it says: reasons that sum to it, similar jobs, how such forecasts did."""
