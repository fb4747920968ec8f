# Studies that take minutes to hours. Each goes on where it was stopped; PROCESSES and OUT can be given.
PYTHON ?= python
PROCESSES ?= $(shell nproc)
OUT ?= build/validation

.PHONY: sbc coverage

# Simulation-based calibration with 2,000 draws from the prior: fails when ranks are not uniform or a fit failed.
sbc:
	$(PYTHON) -m tests.statistical.sbc --draws 2000 --processes $(PROCESSES) --out $(OUT)/sbc.jsonl

# Coverage of 95 % intervals of P(G=1) at fixed truths: the table of docs/validation.md.
coverage:
	$(PYTHON) -m tests.statistical.coverage run --processes $(PROCESSES) --out $(OUT)/coverage.jsonl
