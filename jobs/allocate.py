"""Entry point for `ray job submit --working-dir . -- python jobs/allocate.py …`: the same as `rat-ray allocate …`."""

import sys

from rat_ray.cli import main

sys.exit(main(["allocate", *sys.argv[1:]]))
