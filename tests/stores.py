"""Object stores for tests: servers on this machine that speak the protocols of GCS and S3."""

import contextlib
import functools
import http.server
import json
import re
import sys
import threading
import unittest.mock
import urllib.parse

BUCKET, SECRET = "test-bucket", "secret-bucket"


@contextlib.contextmanager
def gcs():
    """Runs gcp-storage-emulator, and adds conditions on generations, and permissions.

    It also repairs uploads, see `_read_data`.
    """
    from gcp_storage_emulator import server as emulator
    from gcp_storage_emulator.server import RequestHandler
    from gcp_storage_emulator.storage import Storage

    storage = Storage(use_memory_fs=True)
    for name in (BUCKET, SECRET):
        storage.create_bucket(name, {"name": name, "kind": "storage#bucket"})
    lock = threading.Lock()

    class Handler(RequestHandler):
        generation = "0"

        def guarded(self, handle):
            url = urllib.parse.urlparse(self.path)
            query = urllib.parse.parse_qs(url.query)
            if f"/b/{SECRET}" in url.path:
                return self.refuse(403, "no permission")
            with lock:
                _, _, place = url.path.partition("/b/")
                bucket, _, name = place.partition("/o")
                name = urllib.parse.unquote(name[1:]) or query.get("name", [""])[0]
                stored = storage.objects.get(bucket, {}).get(name, {})
                self.generation = stored.get("generation", "0")
                if query.get("ifGenerationMatch", [self.generation]) != [self.generation]:
                    return self.refuse(412, "conditionNotMet")
                with contextlib.suppress(BrokenPipeError):
                    handle()

        def end_headers(self):
            self.send_header("X-Goog-Generation", self.generation)  # TensorStore reads it
            super().end_headers()

        def refuse(self, status, message):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.dumps({"error": {"code": status, "message": message}}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
        handle = getattr(RequestHandler, f"do_{method}")
        guarded = functools.partialmethod(
            lambda self, handle: self.guarded(functools.partial(handle, self)), handle
        )
        setattr(Handler, f"do_{method}", guarded)

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *args):
            if not isinstance(sys.exc_info()[1], ConnectionError):  # a client may disconnect
                super().handle_error(*args)

    server = Server(("127.0.0.1", 0), functools.partial(Handler, storage))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    read_data = functools.partial(_read_data, emulator, emulator._read_data)
    reads = unittest.mock.patch.object(emulator, "_read_data", read_data)
    try:
        reads.start()
        settings = {"TENSORSTORE_GCS_HTTP_URL": url, "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none"}
        yield {"STORAGE_EMULATOR_HOST": url, "NO_PROXY": "127.0.0.1"} | settings
    finally:
        server.shutdown()
        server.server_close()
        reads.stop()


def _read_data(emulator, former, handler, query):
    """Returns the data of a request, with the exact bytes of an uploaded object.

    The emulator's own function (`former`) parses an upload as an e-mail: if an object ends with
    byte 13, it takes that byte and the line feed that gcsfs adds for a line ending, and drops both.
    TensorStore then finds the file too short (OUT_OF_RANGE).
    """
    kind = handler.headers.get("Content-Type") or ""
    if not kind.startswith("multipart/related"):
        return former(handler, query)
    raw = emulator._decode_raw_data(emulator._read_raw_data(handler), handler)
    line = re.match(rb"--([^\r\n]+)(\r?\n)", raw)
    mark, end = b"--" + line[1], line[2]
    first, last = raw.index(end + mark, line.end()), raw.rindex(end + mark + b"--")
    _, meta = raw[line.end() : first].split(2 * end, 1)
    head, content = raw[first + len(end + mark) : last].split(2 * end, 1)
    return {"meta": json.loads(meta), "content": content, "content-type": head.decode().split()[-1]}


@contextlib.contextmanager
def s3():
    """Runs moto's server."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    account = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    try:
        account["NO_PROXY"] = "127.0.0.1"
        settings = account | {"AWS_ENDPOINT_URL": url, "AWS_DEFAULT_REGION": "us-east-1"}
        boto3.client(
            "s3",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        ).create_bucket(Bucket=BUCKET)
        yield settings
    finally:
        server.stop()


def record_requests(monkeypatch):
    """Returns a list that collects the paths of all requests to the servers."""
    requests = []
    parse_request = http.server.BaseHTTPRequestHandler.parse_request
    monkeypatch.setattr(
        http.server.BaseHTTPRequestHandler,
        "parse_request",
        lambda handler: [parse_request(handler), requests.append(handler.path)][0],
    )
    return requests
