"""Entry point for `ray job submit --working-dir . -- python jobs/compare.py …`: the same as `rat-ray compare …`."""

import sys

from rat_ray.cli import main

sys.exit(main(["compare", *sys.argv[1:]]))
