"""The part of the Hugging Face hub that models are pushed to and downloaded from."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = 'c' * 40


class HubHandler(BaseHTTPRequestHandler):
    """Repositories are folders ``OWNER/NAME``; weights take the way of large files."""

    root: Path
    large: dict[str, bytes]  # by digest
    created: list[dict[str, Any]]
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def answer(self, content: Any, code: int = 200, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        for name, value in {'Content-Length': str(len(body)), **headers}.items():
            self.send_header(name.replace('_', '-'), value)
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)

    def body(self) -> bytes:
        if self.headers.get('Transfer-Encoding') != 'chunked':
            return self.rfile.read(int(self.headers['Content-Length']))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b''.join(parts)

    def do_HEAD(self) -> None:
        match = re.fullmatch(r'/([^/]+/[^/]+)/resolve/([^/]+)/(.+)', self.path)
        path = self.root / match[1] / match[3]
        if not path.is_file():
            code = 'EntryNotFound' if path.parent.is_dir() else 'RepoNotFound'
            self.answer({}, 404, X_Error_Code=code)
            return
        content = path.read_bytes()
        tag = hashlib.sha256(content).hexdigest()
        self.answer(content, ETag=f'"{tag}"', X_Repo_Commit=COMMIT)

    def do_GET(self) -> None:
        self.do_HEAD()

    def do_PUT(self) -> None:
        content = self.body()
        self.large[hashlib.sha256(content).hexdigest()] = content
        self.answer({})

    def do_POST(self) -> None:
        body, place = self.body(), f'http://{self.headers["Host"]}'
        if self.headers.get('Authorization') != 'Bearer hf_local':
            self.answer(dict(error='Invalid credentials in Authorization header'), 401)
        elif self.path == '/api/repos/create':
            wanted = json.loads(body)
            self.created.append(wanted)
            (self.root / wanted['organization'] / wanted['name']).mkdir(parents=True, exist_ok=True)
            self.answer(dict(url=f'{place}/{wanted["organization"]}/{wanted["name"]}'))
        elif self.path == '/api/validate-yaml':
            self.answer(dict(errors=[], warnings=[]))
        elif '/preupload/' in self.path:
            modes = [
                dict(
                    path=file['path'],
                    uploadMode='lfs' if file['path'].endswith('.safetensors') else 'regular',
                    shouldIgnore=False,
                )
                for file in json.loads(body)['files']
            ]
            self.answer(dict(files=modes))
        elif self.path.endswith('/info/lfs/objects/batch'):
            objects = [
                dict(item, actions=dict(upload=dict(href=f'{place}/large/{item["oid"]}')))
                for item in json.loads(body)['objects']
            ]
            self.answer(dict(transfer='basic', objects=objects))
        elif '/commit/' in self.path:
            owner, name = self.path.split('/')[3:5]
            for line in body.splitlines():
                self.commit(self.root / owner / name, **json.loads(line))
            url = f'{place}/{owner}/{name}/commit/{COMMIT}'
            self.answer(dict(commitUrl=url, commitOid=COMMIT, success=True))

    def commit(self, folder: Path, key: str, value: dict[str, Any]) -> None:
        if key == 'file':
            (folder / value['path']).write_bytes(base64.b64decode(value['content']))
        elif key == 'lfsFile':
            (folder / value['path']).write_bytes(self.large[value['oid']])


@contextmanager
def serve(root: Path) -> Iterator[tuple[str, type[HubHandler]]]:
    """A hub with the repositories in a folder: its address, and what it was asked for."""
    handler = type('Handler', (HubHandler,), dict(root=root, large={}, created=[]))
    with ThreadingHTTPServer(('127.0.0.1', 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f'http://127.0.0.1:{server.server_port}', handler
        server.shutdown()
