"""`hydra/launcher=rat_ray`: all jobs of a multirun in one driver, as one graph."""
