"""Requests to one server: an event loop in a thread of its own, one pool of connections, retries, and the key.

The openai package spends more on a request than a fast server does; bare aiohttp does not. Whatever thread asks, all
requests of an engine share one `Pace`: how many may be in work at once, and until when nothing is sent.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import json
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

import aiohttp

from rat_ray.errors import StageError, masked
from rat_ray.generate.server_key import Key, proxy_for
from rat_ray.generate.server_pace import Pace, backoff
from rat_ray.generate.server_reply import (
    BUSY,
    CERTIFICATE,
    LOST,
    UNREADABLE,
    Reply,
    error_code,
    json_object,
    message,
    plain,
    retry_after,
)
from rat_ray.generate.server_settings import ServerSettings

LONGEST_ASKED: Final = 600.0  # a server that asks to be left alone for longer gets no more of this job's requests
_SHOWN: Final = 300  # characters of a server's own words

T = TypeVar("T")
Body = Callable[[], Mapping[str, Any]]


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
        except concurrent.futures.CancelledError:
            raise StageError(f"{self}: the connection was closed") from None
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
        return " ".join(masked(self._key.hidden(text)).split())[:_SHOWN]

    def without_key(self, text: str | None) -> str | None:
        """A text as the server wrote it, but for the key, however it is written there."""
        return text and self._key.hidden(text)

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
        content = json_object(body)
        if status == 200 and content is None:
            return Reply(UNREADABLE, {}, self.hide(f"a body that is no JSON: {plain(body)}"))
        if 300 <= status < 400:
            return Reply(status, {}, self.hide(f"a redirect to {headers.get('Location', 'nowhere')}"))
        content = content or {}
        code = error_code(content) if status == 200 else None
        if status == 200 and code is None:
            return Reply(200, content)
        reason = self.hide(message(content) or plain(body)) or "no reason given"
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
