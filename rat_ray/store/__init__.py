"""Tables on disk or S3: parts, manifests, and reading them back. See `store.py`."""

from rat_ray.store.lease import Holder, Lease
from rat_ray.store.local import replace_file, write_new
from rat_ray.store.parts import Part, encode_part, parse_part, part_name, table_digest
from rat_ray.store.settings import StorageSettings
from rat_ray.store.store import MANIFEST, RANGES, Store
from rat_ray.store.table import Input, Table

__all__ = [
    "MANIFEST",
    "RANGES",
    "Holder",
    "Input",
    "Lease",
    "Part",
    "StorageSettings",
    "Store",
    "Table",
    "encode_part",
    "parse_part",
    "part_name",
    "replace_file",
    "table_digest",
    "write_new",
]
