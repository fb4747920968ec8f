"""`python -m rat_ray` is `rat-ray`."""

import sys

from rat_ray.cli import main

sys.exit(main())
