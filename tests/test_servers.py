"""The S3 servers of the tests are what they say: conditions, and data that outlive kill -9."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import servers


def test_moto_honours_a_conditional_create(tmp_path: Path) -> None:
    from botocore.exceptions import ClientError

    with servers.moto(tmp_path) as access:
        s3 = access.client()
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="k", Body=b"first", IfNoneMatch="*")
        with pytest.raises(ClientError) as refused:
            s3.put_object(Bucket="bucket", Key="k", Body=b"second", IfNoneMatch="*")
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 412
        assert s3.get_object(Bucket="bucket", Key="k")["Body"].read() == b"first"


def test_swift_keeps_its_data_over_kill_9(tmp_path: Path) -> None:
    from botocore.exceptions import BotoCoreError

    with servers.swift(tmp_path) as swift:
        s3 = swift.access.client()
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="k", Body=b"kept")
        swift.kill()
        with pytest.raises(BotoCoreError):
            s3.get_object(Bucket="bucket", Key="k")
        swift.start()
        assert s3.get_object(Bucket="bucket", Key="k")["Body"].read() == b"kept"
        assert [entry["Key"] for entry in s3.list_objects_v2(Bucket="bucket")["Contents"]] == ["k"]
        swift.stop()
        swift.start()
        assert s3.get_object(Bucket="bucket", Key="k")["Body"].read() == b"kept"
