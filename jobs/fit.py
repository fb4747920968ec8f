"""Entry point for `ray job submit --working-dir . -- python jobs/fit.py …`: the same as `rat-ray fit …`."""

import sys

from rat_ray.cli import main

sys.exit(main(["fit", *sys.argv[1:]]))
