"""Level 5: the HTTP side as the configuration wants it, also when that changes while it serves.

A changed address, web configuration or permission means another server: it serves before the one of before leaves,
so that no scrape finds nobody. What cannot be had (an address in use, a certificate that is none) is said before
anything has changed.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import replace

from logwatch.config import Config
from logwatch.errors import ConfigError
from logwatch.model import Notify
from logwatch.outlets.web.app import build_app
from logwatch.outlets.web.server import Server, bind, is_passed
from logwatch.outlets.web.site import Site
from logwatch.outlets.web.webfile import WebFile


class Serving:
    """Serves a site, from `start` to `stop`.

    Args:
        config: Where, and to whom.
        site: What; its `reload` is taken away where the configuration does not allow it.
        notify: Told when the web configuration cannot be used any more.
        tick: Called about once a second on the server's thread; must be quick.

    Raises:
        ConfigError: The address cannot be had, or the web configuration cannot be used.
    """

    def __init__(self, config: Config, site: Site, notify: Notify, tick: Callable[[], None]) -> None:
        self._site, self._notify, self._tick = site, notify, tick
        self._wanted = _wanted(config)
        self._socket = bind(config.http.listen)
        self._server = self._made(config, self._socket)
        self._leaving: list[threading.Thread] = []

    @property
    def address(self) -> str:
        """Where it is found: `http://127.0.0.1:9877`."""
        return self._server.address

    def start(self) -> None:
        """Serve from now on."""
        self._server.start()

    def configure(self, config: Config) -> None:
        """Serve as this configuration wants it. Takes as long as a server needs to start, or no time at all.

        Raises:
            ConfigError: As above; then the server of before goes on.
        """
        if _wanted(config) == self._wanted:
            return
        elsewhere = config.http.listen != self._wanted[0] and not is_passed()
        bound = bind(config.http.listen) if elsewhere else self._socket.dup()
        server = self._made(config, bound)
        server.start()
        before, self._server = self._server, server
        self._socket, self._wanted = bound, _wanted(config)
        # Not awaited: it may be answering who asked for the reload.
        leaving = threading.Thread(target=before.stop, name="http of before", daemon=True)
        leaving.start()
        self._leaving = [*(thread for thread in self._leaving if thread.is_alive()), leaving]

    def stop(self) -> None:
        """Finish what is being answered, then close the socket."""
        self._server.stop()
        for thread in self._leaving:
            thread.join()

    def _made(self, config: Config, bound: socket.socket) -> Server:
        site = replace(
            self._site,
            reload=self._site.reload if config.http.enable_reload else None,
            runbook_url=config.alerting.runbook_url,
        )
        try:
            web = WebFile(config.http.web_config, self._notify) if config.http.web_config else None
        except ConfigError:
            bound.close()
            raise
        return Server(build_app(site, web), bound, web, self._tick)


def _wanted(config: Config) -> tuple[object, ...]:
    """What a server is made for; another one is needed when it differs."""
    http = config.http
    return http.listen, http.web_config, http.enable_reload, config.alerting.runbook_url
