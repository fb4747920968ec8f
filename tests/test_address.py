"""What happens where an address names no Ray cluster."""

from __future__ import annotations

import pytest

from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.errors import InputError


@pytest.mark.parametrize("address", ["http://127.0.0.1:8265", "nonsense", "127.0.0.1:1"])
def test_an_address_that_is_none_is_refused_in_words(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=f"cluster.address={address}: no Ray cluster answers there"):
        Cluster(ClusterSettings(address=address)).connect()
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(InputError, match=f"{address}: no Ray cluster answers there"):
        Cluster(ClusterSettings()).connect()
