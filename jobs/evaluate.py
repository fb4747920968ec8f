"""Entry point for `ray job submit --working-dir . -- python jobs/evaluate.py …`: the same as `rat-ray evaluate …`."""

import sys

from rat_ray.cli import main

sys.exit(main(["evaluate", *sys.argv[1:]]))
