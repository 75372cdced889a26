"""The whole loop on one machine, with real processes on simulated GPUs."""
