"""A small Hugging Face Hub on loopback, for the real client: models, branches, large files.

It keeps everything in memory, knows who may see what, and checks what the Hub checks: the metadata
of cards, the hash of each large file. `lines` holds what was asked, `sent` the large files that
arrived whole. Not there: Xet, pull requests, datasets.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

TOKEN = "hf_of_ada"
USERS = {TOKEN: "ada", "hf_of_bob": "bob"}
LARGE = (".safetensors", ".bin", ".png", ".pt")
PART = 200_000  # bytes; a larger file comes in parts
LICENSES = {"apache-2.0", "mit", "cc-by-4.0", "cc-by-sa-4.0", "other", "unknown"}
TASKS = {"translation", "text-generation", "summarization"}


@dataclass
class Repository:
    """One model: what each commit holds, and where each branch is."""

    private: bool = False
    gated: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def commit(self, branch: str, files: dict[str, bytes], message: str) -> str:
        self.messages.append(message)
        number = f"{len(self.commits)} {branch} {message}"
        oid = hashlib.sha1(number.encode()).hexdigest()
        self.commits[oid] = files
        self.branches[branch] = oid
        return oid

    def resolve(self, revision: str) -> str | None:
        oid = self.branches.get(revision, revision)
        return oid if oid in self.commits else None


class HubServer(ThreadingHTTPServer):
    """The server with its repositories; `cuts` tells how often the upload of an object breaks."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.repositories: dict[str, Repository] = {}
        self.objects: dict[str, bytes] = {}
        self.parts: dict[tuple[str, int], bytes] = {}
        self.lines: list[str] = []
        self.sent: list[str] = []
        self.cuts: dict[str, int] = {}

    def files(self, repo_id: str, revision: str = "main") -> dict[str, bytes]:
        repository = self.repositories[repo_id]
        return repository.commits[repository.resolve(revision) or ""]


@contextmanager
def hub() -> Iterator[HubServer]:
    """A server that answers while the block runs."""
    server = HubServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code, self.message = status, code, message


def git_oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def is_large(path: str) -> bool:
    return path.endswith(LARGE)


def card_errors(text: str) -> list[str]:
    """What the Hub has against the metadata of a card."""
    head = re.match(r"---\r?\n(.*?)\r?\n---", text, re.DOTALL)
    data = yaml.safe_load(head[1]) if head else {}
    if not isinstance(data, dict):
        return ["metadata must be an object"]
    errors = []
    languages = data.get("language", [])
    for code in [languages] if isinstance(languages, str) else languages:
        if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]+)*", str(code)):
            errors.append(f'"language" must be a code of ISO 639, got {code}')
    if data.get("license", "unknown") not in LICENSES:
        errors.append(f'"license" must be a known one, got {data["license"]}')
    if data.get("pipeline_tag", "translation") not in TASKS:
        errors.append('"pipeline_tag" must be a task')
    if not all(isinstance(tag, str) for tag in data.get("tags", [])):
        errors.append('"tags" must be strings')
    for model in data.get("model-index", []):
        for result in model.get("results", [{}]):
            for path in ("task.type", "dataset.type", "dataset.name", "metrics.0.type"):
                value: Any = result
                for key in path.split("."):
                    value = value[int(key)] if key.isdigit() else value.get(key, {})
                if not isinstance(value, str) or not value:
                    errors.append(f'"model-index" lacks {path}')
    return errors


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_GET

    def _answer(self) -> None:
        address = urlsplit(self.path)
        self.query = parse_qs(address.query)
        # A branch may have a slash in its name, which is quoted.
        path = address.path
        self.server.lines.append(f"{self.command} {path}")
        name = path.rpartition("/")[2]
        if self.command == "PUT" and self.server.cuts.get(name, 0) > 0:
            self.server.cuts[name] -= 1
            self.rfile.read(1000)
            self.close_connection = True
            self.connection.close()
            return
        body = self._body()
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        self.user = USERS.get(token)
        try:
            if token and self.user is None and not path.startswith("/objects/"):
                raise _Refused(401, "", "Invalid credentials in Authorization header")
            for pattern, answer in _ROUTES:
                if match := re.fullmatch(pattern, f"{self.command} {path}"):
                    answer(self, body, **{k: unquote(v) for k, v in match.groupdict().items()})
                    return
            raise _Refused(404, "", f"no such page: {self.command} {path}")
        except _Refused as refused:
            headers = {"X-Error-Code": refused.code, "X-Error-Message": refused.message}
            self._send(refused.status, {"error": refused.message}, headers)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _send(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _repository(self, repo: str, *, write: bool = False) -> Repository:
        found = self.server.repositories.get(repo)
        if found is None or (found.private and self.user != repo.split("/")[0]):
            raise _Refused(
                401 if self.user is None else 404, "RepoNotFound", "Repository not found"
            )
        if write and self.user != repo.split("/")[0]:
            raise _Refused(403, "", f"You have no right to write to {repo}")
        return found

    def _commit(self, repo: str, revision: str) -> tuple[Repository, str]:
        repository = self._repository(repo)
        oid = repository.resolve(revision)
        if oid is None:
            raise _Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return repository, oid

    def create(self, body: bytes) -> None:
        wanted = json.loads(body)
        if self.user is None:
            raise _Refused(401, "", "Unauthorized")
        owner = wanted.get("organization") or self.user
        if owner != self.user:
            raise _Refused(403, "", f"You have no right to make a model under {owner}")
        repo = f"{owner}/{wanted['name']}"
        address = {"url": f"{self.server.url}/{repo}", "name": repo}
        if repo in self.server.repositories:
            # Unlike other refusals this one names the place, which the client reads.
            self._send(409, {**address, "error": "You already created this model repo"})
            return
        private = wanted.get("visibility") == "private" or bool(wanted.get("private"))
        repository = self.server.repositories[repo] = Repository(private=private)
        repository.commit("main", {".gitattributes": b"*.safetensors filter=lfs\n"}, "initial")
        self._send(200, address)

    def whoami(self, body: bytes) -> None:
        if self.user is None:
            raise _Refused(401, "", "Unauthorized")
        self._send(200, {"name": self.user, "type": "user", "orgs": [], "auth": {}})

    def validate(self, body: bytes) -> None:
        errors = card_errors(json.loads(body)["content"])
        answer = {"errors": [{"message": text} for text in errors], "warnings": []}
        self._send(400 if errors else 200, answer)

    def info(self, body: bytes, repo: str, revision: str | None = None) -> None:
        repository, oid = self._commit(repo, revision or "main")
        names = [{"rfilename": name} for name in sorted(repository.commits[oid])]
        facts = {"id": repo, "modelId": repo, "sha": oid, "siblings": names, "tags": []}
        facts |= {"private": repository.private, "gated": repository.gated, "downloads": 0}
        self._send(200, facts | {"likes": 0})

    def tree(self, body: bytes, repo: str, revision: str, folder: str = "") -> None:
        repository, oid = self._commit(repo, revision)
        if folder and not any(name.startswith(f"{folder}/") for name in repository.commits[oid]):
            raise _Refused(404, "EntryNotFound", f"{folder} does not exist")
        entries = []
        for name, content in sorted(repository.commits[oid].items()):
            entry = {"type": "file", "path": name, "size": len(content), "oid": git_oid(content)}
            if is_large(name):
                large = {"oid": sha256(content), "size": len(content), "pointerSize": 130}
                entry["lfs"] = large  # type: ignore[assignment]
            entries.append(entry)
        self._send(200, entries)

    def refs(self, body: bytes, repo: str) -> None:
        repository = self._repository(repo)
        branches = [
            {"name": name, "ref": f"refs/heads/{name}", "targetCommit": oid}
            for name, oid in repository.branches.items()
        ]
        self._send(200, {"branches": branches, "converts": [], "tags": []})

    def branch(self, body: bytes, repo: str, branch: str) -> None:
        repository = self._repository(repo, write=True)
        if branch in repository.branches:
            raise _Refused(409, "", "Reference already exists")
        repository.branches[branch] = repository.branches["main"]
        self._send(200, {})

    def preupload(self, body: bytes, repo: str, revision: str) -> None:
        self._repository(repo, write=True)
        repository, oid = self._commit(repo, revision)
        answers = []
        for wanted in json.loads(body)["files"]:
            path = wanted["path"]
            answer = {"path": path, "uploadMode": "lfs" if is_large(path) else "regular"}
            content = repository.commits[oid].get(path)
            if content is not None:
                answer["oid"] = sha256(content) if is_large(path) else git_oid(content)
            answers.append(answer | {"shouldIgnore": False})
        self._send(200, {"files": answers})

    def batch(self, body: bytes, repo: str) -> None:
        self._repository(repo, write=True)
        answers = []
        for wanted in json.loads(body)["objects"]:
            oid, size = wanted["oid"], wanted["size"]
            answer: dict[str, Any] = {"oid": oid, "size": size}
            if oid not in self.server.objects:
                place = f"{self.server.url}/objects/{oid}"
                upload: dict[str, Any] = {"href": place}
                if size > PART:
                    count = -(-size // PART)
                    parts = {str(k): f"{place}?part={k}" for k in range(1, count + 1)}
                    upload["header"] = {"chunk_size": str(PART), **parts}
                answer["actions"] = {"upload": upload}
            answers.append(answer)
        self._send(200, {"objects": answers, "transfer": "basic"})

    def put(self, body: bytes, oid: str) -> None:
        if "part" in self.query:
            self.server.parts[oid, int(self.query["part"][0])] = body
            self._send(200, b"", {"ETag": hashlib.md5(body).hexdigest()})
            return
        self._store(oid, body)
        self._send(200, b"")

    def complete(self, body: bytes, oid: str) -> None:
        numbers = [part["partNumber"] for part in json.loads(body)["parts"]]
        self._store(oid, b"".join(self.server.parts.pop((oid, k)) for k in sorted(numbers)))
        self._send(200, {})

    def _store(self, oid: str, content: bytes) -> None:
        if sha256(content) != oid:
            raise _Refused(422, "", "the content has another hash")
        self.server.objects[oid] = content
        self.server.sent.append(oid)

    def commit(self, body: bytes, repo: str, revision: str) -> None:
        self._repository(repo, write=True)
        repository, oid = self._commit(repo, revision)
        files = dict(repository.commits[oid])
        message = ""
        for line in body.splitlines():
            key, value = (json.loads(line)[name] for name in ("key", "value"))
            if key == "header":
                message = value["summary"]
            elif key == "file":
                files[value["path"]] = base64.b64decode(value["content"])
                self.server.sent.append(value["path"])
            elif key == "lfsFile":
                if value["oid"] not in self.server.objects:
                    raise _Refused(400, "", f"the large file {value['path']} did not arrive")
                files[value["path"]] = self.server.objects[value["oid"]]
            elif key == "deletedFile":
                del files[value["path"]]
        if "README.md" in files and card_errors(files["README.md"].decode()):
            raise _Refused(400, "", "Invalid metadata in README.md")
        oid = repository.commit(revision, files, message)
        address = f"{self.server.url}/{repo}/commit/{oid}"
        self._send(200, {"commitOid": oid, "commitUrl": address, "success": True})

    def resolve(self, body: bytes, repo: str, revision: str, file: str) -> None:
        repository, oid = self._commit(repo, revision)
        if repository.gated and self.user != repo.split("/")[0]:
            raise _Refused(403, "GatedRepo", f"Access to model {repo} is restricted")
        content = repository.commits[oid].get(file)
        headers = {"X-Repo-Commit": oid}
        if content is None:
            headers |= {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"}
            self._send(404, {}, headers)
            return
        tag = sha256(content) if is_large(file) else git_oid(content)
        headers |= {"ETag": f'"{tag}"', "Accept-Ranges": "bytes"}
        if is_large(file):
            headers |= {"X-Linked-ETag": f'"{tag}"', "X-Linked-Size": str(len(content))}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted:
            start, size = int(wanted[1]), len(content)
            end = min(int(wanted[2] or size - 1), size - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{size}"
            content = content[start : end + 1]
        self._send(206 if wanted else 200, content, headers)


_REPO = r"/api/models/(?P<repo>[^/]+/[^/]+)"
_REVISION = r"(?P<revision>[^/]+)"
_ROUTES = [
    ("POST /api/repos/create", _Handler.create),
    ("GET /api/whoami-v2", _Handler.whoami),
    ("POST /api/validate-yaml", _Handler.validate),
    (f"GET {_REPO}", _Handler.info),
    (f"GET {_REPO}/revision/{_REVISION}", _Handler.info),
    (f"GET {_REPO}/tree/{_REVISION}", _Handler.tree),
    (f"GET {_REPO}/tree/{_REVISION}/(?P<folder>.+)", _Handler.tree),
    (f"GET {_REPO}/refs", _Handler.refs),
    (f"POST {_REPO}/branch/(?P<branch>.+)", _Handler.branch),
    (f"POST {_REPO}/preupload/{_REVISION}", _Handler.preupload),
    (f"POST {_REPO}/commit/{_REVISION}", _Handler.commit),
    (r"POST /(?P<repo>[^/]+/[^/]+)\.git/info/lfs/objects/batch", _Handler.batch),
    (r"PUT /objects/(?P<oid>\w+)", _Handler.put),
    (r"POST /objects/(?P<oid>\w+)", _Handler.complete),
    (
        r"(GET|HEAD) /(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)",
        _Handler.resolve,
    ),
]
