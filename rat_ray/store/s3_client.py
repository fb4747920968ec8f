"""One boto3 client: how it is made, how long it is patient, and what its errors mean in words.

Credentials come from boto3's own chain and are never looked at here. Messages are made from error codes and our own
words, since what a server or an HTTP library says may repeat a request's headers.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from rat_ray.errors import InputError, MissingExtraError, StageError
from rat_ray.store.settings import StorageSettings

T = TypeVar("T")

_BUSY = {"SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "RequestLimitExceeded", "InternalError"}
_BAD_CREDENTIALS = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "ExpiredToken",
    "TokenRefreshRequired",
    "401",
}
_WRONG_REGION = {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301"}
_FIND_CREDENTIALS = "boto3 looks for them in AWS_PROFILE, AWS_ACCESS_KEY_ID, ~/.aws/credentials, the machine's role"


class Answer(Exception):
    """What a server said that the caller has a use for.

    word: missing, exists, beyond (a range past the end) or unsupported. again: an earlier attempt of the same request
    got no answer, so it may be what is there now.
    """

    def __init__(self, word: str, again: bool) -> None:
        super().__init__(word)
        self.word = word
        self.again = again


class S3Client:
    """Requests to one bucket, repeated while they fail for reasons that pass.

    failure: the error to raise when patience ends or the server refuses: InputError before any work, else StageError.
    """

    def __init__(self, bucket: str, storage: StorageSettings, failure: type[InputError] | type[StageError]) -> None:
        self.bucket = bucket
        self._patience = storage.patience
        self._failure = failure
        self.boto = _in_words(failure, lambda: _make_client(storage))
        self.endpoint = str(self.boto.meta.endpoint_url)
        if "@" in self.endpoint:  # not repeated: it may be a password
            raise InputError(
                "s3: the endpoint that boto3 found (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or a profile's endpoint_url) "
                "holds an @; an address holds no credentials, boto3 finds them (AWS_PROFILE, ~/.aws/credentials, …)"
            )

    def request(self, operation: str, key: str, expected: Collection[str] = (), **arguments: Any) -> Any:
        """One request about an object, as boto3 names it. Raises Answer for what is expected."""
        method = getattr(self.boto, operation)
        return self.attempt(key, lambda: method(Bucket=self.bucket, Key=key, **arguments), expected)

    def once(self, operation: str, key: str, **arguments: Any) -> Any:
        """The same without patience."""
        method = getattr(self.boto, operation)
        return self.attempt(key, lambda: method(Bucket=self.bucket, Key=key, **arguments), patience=0)

    def attempt(
        self, key: str, action: Callable[[], T], expected: Collection[str] = (), patience: float | None = None
    ) -> T:
        """Do it until it succeeds, is refused, or `patience` seconds have gone by."""
        deadline = time.monotonic() + (self._patience if patience is None else patience)
        tries = 0
        while True:
            try:
                return action()
            except _errors() as error:
                word, again = _meaning(error), tries > 0 or _repeated(error)
                if word in expected:
                    raise Answer(word, again) from None
                wait = random.uniform(0.5, 1.0) * min(5.0, 0.2 * 2**tries)
                if word != "passing" or time.monotonic() + wait > deadline:
                    raise self._failure(self._message(key, error, word)) from None
            tries += 1
            time.sleep(wait)

    def _message(self, key: str, error: Exception, word: str) -> str:
        why = describe(error, self.bucket)
        lasted = f", tried for {self._patience:.0f} s" if word == "passing" and self._failure is StageError else ""
        return f"s3://{self.bucket}/{key} at {self.endpoint}: {why}{lasted}"


def _make_client(storage: StorageSettings) -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise MissingExtraError("boto3", "s3") from error
    patient = storage.patience >= 10
    options: dict[str, Any] = {
        "connect_timeout": 10 if patient else 3,
        "read_timeout": 60 if patient else 10,
        "max_pool_connections": storage.connections,
        "retries": {"mode": "standard", "total_max_attempts": 3 if patient else 1},
        "s3": {"addressing_style": "path" if storage.path_style else "auto"},
    }
    if storage.endpoint or any(
        name.startswith("AWS_ENDPOINT_URL") for name in os.environ
    ):  # many servers do not know the checksums that boto3 adds for AWS
        for name in ("request_checksum_calculation", "response_checksum_validation"):
            if f"AWS_{name.upper()}" not in os.environ:
                options[name] = "when_required"
    client = boto3.session.Session().client(
        "s3", region_name=storage.region or None, endpoint_url=storage.endpoint or None, config=Config(**options)
    )
    client.meta.events.register("before-call.s3.DeleteObjects", _add_md5)
    return client


def _add_md5(params: dict[str, Any], **_: Any) -> None:
    """Servers older than AWS's checksums ask for this header in a batch of deletions."""
    import base64
    import hashlib

    digest = hashlib.md5(params["body"], usedforsecurity=False).digest()
    params["headers"].setdefault("Content-MD5", base64.b64encode(digest).decode())


def _in_words(failure: type[InputError] | type[StageError], action: Callable[[], T]) -> T:
    try:
        return action()
    except _errors() as error:
        raise failure(f"s3: {describe(error, '')}") from None
    except ValueError:  # boto3's for an endpoint or a region that it cannot make sense of
        raise InputError(
            "s3: boto3 refuses the endpoint or the region; check storage.endpoint and storage.region"
        ) from None


def _errors() -> tuple[type[Exception], ...]:
    try:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError
    except ImportError:
        return ()
    return (BotoCoreError, ClientError, ResponseParserError)


def _facts(error: Exception) -> tuple[str, int]:
    """Error code and HTTP status of a server's refusal."""
    response = getattr(error, "response", None) or {}
    code = str(response.get("Error", {}).get("Code", ""))
    return code, int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _repeated(error: Exception) -> bool:
    """Whether botocore itself sent the request more than once."""
    response = getattr(error, "response", None) or {}
    return int(response.get("ResponseMetadata", {}).get("RetryAttempts", 0)) > 0


def _meaning(error: Exception) -> str:
    """passing, a word of `Answer`, or refused."""
    from botocore.exceptions import ClientError, ConnectionError, HTTPClientError, IncompleteReadError
    from botocore.parsers import ResponseParserError

    if not isinstance(error, ClientError):
        if isinstance(error, HTTPClientError) and isinstance(error.kwargs.get("error"), ValueError):
            return "refused"  # a header that cannot be sent
        passing = isinstance(error, ConnectionError | HTTPClientError | IncompleteReadError | ResponseParserError)
        return "passing" if passing else "refused"
    code, status = _facts(error)
    if code in ("NoSuchBucket", "AccessDenied"):
        return "refused"
    if status == 501 or code == "NotImplemented":
        return "unsupported"
    if code in _BUSY or status in (409, 429) or status >= 500:  # 409: two writes of one name at once; S3 asks to repeat
        return "passing"
    return {404: "missing", 412: "exists", 416: "beyond"}.get(status, "refused")


def describe(error: Exception, bucket: str) -> str:
    """What went wrong, and what to do; without anything that a request or an answer held."""
    from botocore import exceptions as known

    if isinstance(error, known.ClientError):
        return _describe_refusal(*_facts(error), bucket)
    if isinstance(error, known.NoCredentialsError | known.PartialCredentialsError):
        return f"no credentials were found, or only a part of them; {_FIND_CREDENTIALS}"
    if isinstance(error, known.ProfileNotFound):
        return "the profile that AWS_PROFILE names is in no configuration file of AWS"
    if isinstance(error, known.ConnectTimeoutError | known.ReadTimeoutError):
        return "the server does not answer; check storage.endpoint and the network"
    if isinstance(error, known.SSLError):
        return "no secure connection (its certificate is not trusted, or it speaks http://); check storage.endpoint"
    if isinstance(error, known.ConnectionError | known.ConnectionClosedError):
        return "no connection; check storage.endpoint, the network, and whether the server runs"
    if isinstance(error, known.HTTPClientError) and isinstance(error.kwargs.get("error"), ValueError):
        return "the request cannot be sent; are there spaces or line ends in the credentials?"
    if isinstance(error, known.BotoCoreError):
        return f"boto3 failed with {type(error).__name__}; check its configuration; {_FIND_CREDENTIALS}"
    return "what answers does not speak S3; check storage.endpoint"


def _describe_refusal(code: str, status: int, bucket: str) -> str:
    said = f"({code or 'no code'}, HTTP {status})"
    if code == "NoSuchBucket" or (status == 404 and code != "NoSuchKey"):
        return f"there is no bucket {bucket!r} {said}; create it, or check store= and storage.endpoint"
    if code in _BAD_CREDENTIALS or status == 401:
        return f"the server refuses the credentials {said}; {_FIND_CREDENTIALS}"
    if code in _WRONG_REGION or status in (301, 307):
        return f"the bucket lies in another region {said}; set storage.region"
    if code == "RequestTimeTooSkewed":
        return f"this machine's clock is wrong {said}"
    if status == 403:
        return f"not permitted {said}; listing, reading, writing and deleting below the prefix are needed"
    if status >= 500 or code in _BUSY or status in (409, 429):
        return f"the server cannot serve now {said}"
    return f"the server refuses the request {said}"
