"""Simulation studies of the statistics: calibration over the prior, and coverage at fixed truths."""
