"""Entry point for `ray job submit --working-dir . -- python jobs/report.py …`: the same as `rat-ray report …`."""

import sys

from rat_ray.cli import main

sys.exit(main(["report", *sys.argv[1:]]))
