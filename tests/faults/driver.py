"""A driver that runs one stage, as a process of its own that tests kill: python -m tests.faults.driver KIND STORE …"""

from __future__ import annotations

import argparse
import sys

from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.errors import InputError, StageError
from rat_ray.stage import Runs
from rat_ray.store import Store
from tests.faulty import Trouble, questions, stage_of


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("store")
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--log", default="")
    parser.add_argument("--wait", type=float, default=0.0)
    parser.add_argument("--address", default="")
    parser.add_argument("--use", default="always")
    given = parser.parse_args()
    store = Store(given.store)
    store.prepare()
    settings = ClusterSettings(use=given.use, cpus=2, address=given.address, stall_timeout=60)
    with Cluster(settings) as cluster:
        runs = Runs(store, cluster, quiet=True)
        stage = stage_of(given.kind, questions(store, given.rows), Trouble(given.log, wait=given.wait))
        try:
            runs.run([stage], "driven")
        except (InputError, StageError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        print(f"{runs.records[-1].reused_rows} reused, {runs.records[-1].new_rows} new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
