"""A headless Chromium, driven through the pipe of its DevTools protocol, and a static server."""

import json
import os
import shutil
import signal
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from select import select
from threading import Thread
from typing import Any

import pytest

TIMEOUT = 60  # seconds for an answer
OPTIONS = (
    '--headless=new', '--no-sandbox', '--no-first-run', '--disable-extensions',
    '--disable-background-networking', '--disable-dev-shm-usage', '--hide-scrollbars',
    '--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream',
)  # fmt: skip


class Quiet(SimpleHTTPRequestHandler):
    """The server of ``python -m http.server``, without its log."""

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


class Shared(Quiet):
    """The same with the header of a CDN that lets other pages read its files."""

    def end_headers(self) -> None:
        self.send_header('Access-Control-Allow-Origin', '*')
        super().end_headers()


@contextmanager
def serve(
    folder: Path, certificate: Path | None = None, handler: type[Quiet] = Quiet
) -> Iterator[str]:
    """The address of a folder on a static server.

    Args:
        folder: What is served.
        certificate: That of a CDN, with its key, in one file; None for plain http.
        handler: What answers on plain http.
    """
    answer = partial(Shared if certificate else handler, directory=str(folder))
    with ThreadingHTTPServer(('127.0.0.1', 0), answer) as server:
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f'http://127.0.0.1:{server.server_port}/'
        finally:
            server.shutdown()
            thread.join()


class Tab:
    """A tab of a browser."""

    def __init__(self, commands: int, answers: int) -> None:
        self.commands, self.answers = commands, answers
        self.number, self.buffer = 0, b''
        self.session: str | None = None
        self.messages: list[str] = []  # of the console, of errors and of the security policy
        target = self.send('Target.createTarget', url='about:blank')['targetId']
        attached = self.send('Target.attachToTarget', targetId=target, flatten=True)
        self.session = attached['sessionId']
        for domain in ('Page', 'Runtime', 'Log', 'DOM'):
            self.send(f'{domain}.enable')

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command, and wait for its answer."""
        self.number += 1
        command = dict(id=self.number, method=method, params=params)
        if self.session:
            command['sessionId'] = self.session
        os.write(self.commands, json.dumps(command).encode() + b'\0')
        while True:
            message = self.receive()
            if message.get('id') == self.number:
                assert 'error' not in message, (method, message)
                return message['result']
            if message.get('method') in ('Runtime.exceptionThrown', 'Log.entryAdded'):
                self.messages.append(json.dumps(message['params']))

    def receive(self) -> dict[str, Any]:
        while b'\0' not in self.buffer:
            ready, _, _ = select([self.answers], [], [], TIMEOUT)
            assert ready, f'the browser gave no answer in {TIMEOUT} s'
            part = os.read(self.answers, 2**20)
            assert part, 'the browser ended'
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b'\0')
        return json.loads(message)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, or of its promise."""
        found = self.send(
            'Runtime.evaluate', expression=expression, awaitPromise=True, returnByValue=True
        )
        assert 'exceptionDetails' not in found, found
        return found['result'].get('value')

    def open(self, address: str) -> str:
        """Open a page, and wait until its model is loaded or has failed: 'ready' or 'failed'."""
        self.send('Page.navigate', url=address)
        return self.evaluate("""new Promise((done) => {
            const look = () => document.documentElement?.dataset.state;
            const timer = setInterval(() => look() && (clearInterval(timer), done(look())), 20);
        })""")

    def choose(self, picture: Path) -> dict[str, Any]:
        """Choose a picture as a user does: the prediction."""
        self.evaluate("""void (window.found = new Promise((done, fail) => {
            const plain = (key, value) => ArrayBuffer.isView(value) ? [...value] : value;
            document.addEventListener('prediction', ({detail}) =>
                done(JSON.stringify(detail, plain)), {once: true});
            const error = document.getElementById('error');
            new MutationObserver(() => error.hidden || fail(error.textContent))
                .observe(error, {attributes: true});
        }))""")
        self.give(picture)
        return json.loads(self.evaluate('window.found'))

    def give(self, picture: Path) -> None:
        root = self.send('DOM.getDocument')['root']['nodeId']
        node = self.send('DOM.querySelector', nodeId=root, selector='#file')['nodeId']
        self.send('DOM.setFileInputFiles', nodeId=node, files=[str(picture)])


@contextmanager
def open_tab(profile: Path, options: Sequence[str] = ()) -> Iterator[Tab]:
    """A tab of a new browser, or a skipped test where there is none.

    Args:
        profile: An empty folder for the browser.
        options: More options of the browser.
    """
    names = ('chromium', 'chromium-browser', 'chrome')
    chromium = next(filter(None, map(shutil.which, names)), None)
    if chromium is None:
        pytest.skip('Chromium is not installed: apt-get install chromium')
    command = [chromium, *OPTIONS, *options, f'--user-data-dir={profile}']
    command.append('--remote-debugging-pipe')  # commands come on descriptor 3, answers go to 4
    their_commands, commands = os.pipe()
    answers, their_answers = os.pipe()
    process = subprocess.Popen(
        ['bash', '-c', f'exec "$@" 3<&{their_commands} 4>&{their_answers}', 'bash', *command],
        pass_fds=(their_commands, their_answers),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(their_commands)
    os.close(their_answers)
    try:
        yield Tab(commands, answers)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(commands)
        os.close(answers)
