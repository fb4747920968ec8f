"""Requests to one server: an event loop in a thread of its own, one pool of connections, retries, and the key.

The openai package spends more on a request than a fast server does; bare aiohttp does not. Whatever thread asks, all
requests of an engine share one `Pace`: how many may be in work at once, and until when nothing is sent.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import email.utils
import ipaddress
import json
import os
import random
import re
import threading
import time
import urllib.parse
import urllib.request
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import aiohttp

from rat_ray.errors import InputError, StageError, masked
from rat_ray.generate.server_settings import ServerSettings

LOST: Final = 0  # in place of an HTTP status: no answer came
BUSY: Final = (429, 503)  # the whole engine waits
AWAY: Final = (LOST, 502, 503, 504)  # the server, or the one behind a gateway, may be gone
CERTIFICATE: Final = -1  # in place of an HTTP status: the server is not the one that it says to be
UNREADABLE: Final = 599  # in place of 200: a body that is no JSON object

FIRST_WAIT: Final = 0.5  # seconds before the first retry; doubled for each further one
LONGEST_WAIT: Final = 30.0
LONGEST_ASKED: Final = 600.0  # a server that asks to be left alone for longer gets no more of this job's requests
_SHOWN: Final = 300  # characters of a server's own words

_NAMED: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}

T = TypeVar("T")
Body = Callable[[], Mapping[str, Any]]


class Reply(NamedTuple):
    """What came back. content: the parsed JSON object, {} if there was none. reason: in words, without the key.

    status: the HTTP status, that inside a 200 which holds an error, or one of this module's own.
    wait: for how many seconds the server asks to be left alone. tries: how often it was asked, for the first time
    at began. sent: the last body.
    """

    status: int
    content: Mapping[str, Any]
    reason: str = ""
    wait: float | None = None
    refused: bool = False  # nobody listens there
    tries: int = 1
    began: float = 0.0
    sent: Mapping[str, Any] = {}

    @property
    def passing(self) -> bool:
        """Whether another try may help."""
        return self.status == LOST or self.status in (408, 409, 429) or (self.status >= 500 and self.status != 501)


@dataclass(eq=False)
class _Job:
    """One try of one request; task: who does it now."""

    attempt: Callable[[], Coroutine[Any, Any, Reply]]
    done: asyncio.Future[Reply]
    task: asyncio.Task[None] | None = None


class Pace:
    """How many requests may be in work at once, and when the next may begin. Used by the loop's thread only.

    A 429 or 503 stops all of them for a while and halves their number; each answer then adds a little again.
    As many tasks as may be in work take one request after the other: a task that had to be woken for each of them
    would send it only after all replies that came with the last one are read.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = float(most)
        self._jobs: deque[_Job] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._opens = 0.0
        self._held = 0.0  # when it was stopped last
        self._level = 0  # how often it was stopped without an answer in between
        self._timer: asyncio.TimerHandle | None = None
        self.answered_at = 0.0

    async def do(self, attempt: Callable[[], Coroutine[Any, Any, Reply]], again: bool) -> Reply:
        """Do it when it is its turn; who was refused before goes first."""
        job = _Job(attempt, asyncio.get_running_loop().create_future())
        self._jobs.appendleft(job) if again else self._jobs.append(job)
        self._start()
        try:
            return await job.done
        except asyncio.CancelledError:
            if job.task is not None:
                job.task.cancel()
            raise

    def answered(self) -> None:
        """A request was answered, so that more may be sent."""
        self.answered_at = time.monotonic()
        self._level = 0
        self._limit = min(self._most, self._limit + 1 / self._limit)

    def hold(self, began: float, wait: float | None, narrower: bool) -> None:
        """Nothing is sent for `wait` seconds, or a while that grows. began: when the request was sent that failed.

        Requests that were in work together fail together: only the first of them counts.
        """
        now = time.monotonic()
        first = began >= self._held
        if first:
            self._held = now
            self._level += 1
            if narrower:
                self._limit = max(1.0, self._limit / 2)
        if wait is not None:
            self._opens = max(self._opens, now + wait)
        elif first:
            self._opens = max(self._opens, now + backoff(self._level))

    def _start(self) -> None:
        """Start tasks for the requests that wait, as many as may be, or come back when some may."""
        left = self._opens - time.monotonic()
        if self._jobs and left > 0 and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(left, self._open)
        for _ in range(min(len(self._jobs), int(self._limit) - len(self._tasks)) if left <= 0 else 0):
            task = asyncio.ensure_future(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _open(self) -> None:
        self._timer = None
        self._start()

    async def _work(self) -> None:
        task = asyncio.current_task()
        while self._jobs and len(self._tasks) <= int(self._limit) and time.monotonic() >= self._opens:
            job = self._jobs.popleft()
            if job.done.done():  # nobody waits for it any more
                continue
            job.task = task
            try:
                reply = await job.attempt()
            except Exception as error:
                job.done.set_exception(error)
                continue
            finally:
                job.task = None
            if not job.done.done():
                job.done.set_result(reply)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._start()


def backoff(tries: int) -> float:
    """Seconds before the next try, different ones for requests that failed together."""
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(tries - 1, 10))
    return longest * random.uniform(0.5, 1.0)


class Http:
    """The connections to one server, for any number of threads. Redirects are not followed: they would take the key.

    Proxies are those of HTTP_PROXY, HTTPS_PROXY and NO_PROXY, never for a server on this machine; ~/.netrc is not read.
    """

    def __init__(self, settings: ServerSettings, connections: int) -> None:
        settings.validate()
        self.url = settings.base
        self._settings = settings
        self._key = Key(settings.key_variable)
        self._proxy = proxy_for(settings.url)
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self._loop = asyncio.new_event_loop()
        self._closed = threading.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"requests to {self.url}", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def __str__(self) -> str:
        return f"server.url={self.url}"

    @property
    def key_words(self) -> str:
        """What was sent as a key, in words."""
        variable = self._settings.key_variable
        return f"the key in ${variable}" if variable else "requests without a key (see server.key_variable)"

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it in the loop's thread, and wait for it in this one."""
        if self._loop.is_closed() or not self._thread.is_alive():
            work.close()
            raise StageError(f"{self}: the connection was closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Close the connections and end the thread."""
        if not self._closed.acquire(blocking=False):
            return
        atexit.unregister(self.close)
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def ask(
        self,
        path: str,
        body: Body | None,
        pace: Pace,
        retries: int | None = None,
        base: str | None = None,
        learn: Callable[[Reply], None] | None = None,
    ) -> Reply:
        """The reply, after as many tries as are allowed. base: another address than the settings'.

        body: makes it when it is the request's turn, since more may be known by then; None: GET. learn: sees each reply
        before another request begins.
        """
        allowed = self._settings.retries if retries is None else retries
        address = (self.url if base is None else base) + path
        first, tries = 0.0, 0
        while True:
            reply = await pace.do(lambda: self._attempt(address, body, pace, learn), again=tries > 0)
            first, tries = first or reply.began, tries + 1
            if not reply.passing or tries > allowed or (reply.wait or 0.0) > LONGEST_ASKED:
                return reply._replace(tries=tries, began=first)
            await asyncio.sleep(backoff(tries) if reply.wait is None else reply.wait)

    def hide(self, text: str) -> str:
        """The text on one line, shortened, with `***` for the key."""
        return " ".join(self._key.hidden(masked(text)).split())[:_SHOWN]

    async def _attempt(
        self, address: str, body: Body | None, pace: Pace, learn: Callable[[Reply], None] | None
    ) -> Reply:
        began = time.monotonic()
        sent = {} if body is None else body()
        reply = await self._once(address, None if body is None else json.dumps(sent).encode())
        if not reply.passing:
            pace.answered()
        elif (reply.status in BUSY or reply.refused) and (reply.wait or 0.0) <= LONGEST_ASKED:
            pace.hold(began, reply.wait, narrower=reply.status in BUSY)
        reply = reply._replace(sent=sent, began=began)
        if learn is not None:
            learn(reply)
        return reply

    async def _once(self, address: str, data: bytes | None) -> Reply:
        session = self._opened()
        try:
            async with session.request(
                "GET" if data is None else "POST", address, data=data, proxy=self._proxy, allow_redirects=False
            ) as response:
                body = await response.read()
                return self._reply(response.status, body, response.headers)
        except TimeoutError:
            return Reply(LOST, {}, f"no answer within server.timeout={self._settings.timeout:g} s")
        except aiohttp.ClientConnectorCertificateError as error:
            return Reply(CERTIFICATE, {}, self.hide(str(error)))
        except aiohttp.ClientConnectorError as error:
            return Reply(LOST, {}, self.hide(f"cannot connect: {error.os_error.strerror or error}"), refused=True)
        except (aiohttp.ClientError, OSError) as error:
            return Reply(LOST, {}, self.hide(f"the connection was lost ({type(error).__name__}: {error})"))

    def _reply(self, status: int, body: bytes, headers: Mapping[str, str]) -> Reply:
        body = self._key.hidden_bytes(body)
        content = _object(body)
        if status == 200 and content is None:
            return Reply(UNREADABLE, {}, self.hide(f"a body that is no JSON: {_plain(body)}"))
        if 300 <= status < 400:
            return Reply(status, {}, self.hide(f"a redirect to {headers.get('Location', 'nowhere')}"))
        content = content or {}
        code = _error_code(content) if status == 200 else None
        if status == 200 and code is None:
            return Reply(200, content)
        reason = self.hide(message(content) or _plain(body)) or "no reason given"
        return Reply(code or status, content, reason, retry_after(headers))

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections),
                timeout=aiohttp.ClientTimeout(total=self._settings.timeout),
                headers=headers | self._key.headers,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def _end(self) -> None:
        if self._session is not None:
            await self._session.close()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


async def together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All results in order; the first exception ends the others."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


class Key:
    """A key from the environment, which knows every spelling in which it must not be shown."""

    __slots__ = ("_bytes", "_pattern", "headers")

    def __init__(self, variable: str) -> None:
        key = os.environ.get(variable, "").strip() if variable else ""
        if variable and not key:
            raise InputError(f"server.key_variable={variable!r}: no such environment variable here, or it is empty")
        if not key.isascii() or not key.isprintable() or " " in key:
            raise InputError(f"the key in ${variable} holds characters that no key has (blanks, line breaks, …)")
        self.headers: dict[str, str] = {"Authorization": f"Bearer {key}"} if key else {}
        encoded = base64.b64encode(key.encode()).decode()
        plain = (key, json.dumps(key)[1:-1], key.replace("/", "\\/"), encoded)
        self._bytes = tuple(dict.fromkeys(one.encode() for one in plain if one))
        spelt = "".join(_spellings(character) for character in key)
        self._pattern = re.compile(f"{spelt}|{re.escape(encoded)}", re.IGNORECASE) if key else None

    def __repr__(self) -> str:
        return "Key(***)"

    def hidden(self, text: str) -> str:
        """The text with `***` for the key, however its characters are escaped."""
        return self._pattern.sub("***", text) if self._pattern else text

    def hidden_bytes(self, body: bytes) -> bytes:
        """The same for a body: a key that a server repeats in an answer must get into no table."""
        for spelling in self._bytes:
            body = body.replace(spelling, b"***")
        return body


def _spellings(character: str) -> str:
    """A pattern of a character as it is, after a backslash, and as URLs, JSON and HTML may write it."""
    code = ord(character)
    forms = [rf"\\*{re.escape(character)}", f"%{code:02x}", rf"\\+u{code:04x}", f"&#x0*{code:x};", f"&#0*{code};"]
    return f"(?:{'|'.join([*forms, *([_NAMED[character]] if character in _NAMED else [])])})"


def message(content: Mapping[str, Any]) -> str:
    """A server's own words about an error: OpenAI's, vLLM's, llama.cpp's and FastAPI's forms. "": none."""
    error = content.get("error")
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("code") or error.get("type")
    if error:
        return str(error)
    detail = content.get("detail")
    if isinstance(detail, list):
        return "; ".join(_field_error(one) for one in detail)
    return str(detail or content.get("message") or "")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds for which a server asks to be left alone: given as milliseconds, seconds or a date; None: not said."""
    for name, scale in (("Retry-After-Ms", 0.001), ("Retry-After", 1.0)):
        value = headers.get(name, "").strip()
        try:
            return max(0.0, float(value) * scale)
        except ValueError:
            pass
    try:
        date = email.utils.parsedate_to_datetime(headers.get("Retry-After", ""))
    except ValueError:
        return None
    return max(0.0, date.timestamp() - time.time())


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for this address; None for a server on this machine."""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    if host == "localhost" or _is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    found = urllib.request.getproxies()
    return found.get(parts.scheme) or found.get("all")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _field_error(one: Any) -> str:
    if not isinstance(one, Mapping):
        return str(one)
    place = one.get("loc")
    where = ".".join(map(str, place)) if isinstance(place, list) else ""
    return f"{where}: {one.get('msg', '')}"


def _object(body: bytes) -> Mapping[str, Any] | None:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):  # bytes that are no text raise a ValueError too
        return None
    return content if isinstance(content, dict) else None


def _error_code(content: Mapping[str, Any]) -> int | None:
    """The status inside an error that came with 200, as gateways send it."""
    error = content.get("error")
    if not isinstance(error, Mapping):
        return None
    code = error.get("code")
    return code if isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600 else None


def _plain(body: bytes) -> str:
    """The beginning of a page or text, without its tags."""
    return re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", body[:5000].decode("utf-8", "replace"), flags=re.S | re.I)
