#!/usr/bin/env python3
"""An object server for tests: what stores of weft ask of S3, in memory, with faults on demand.

    s3_server.py PORT_FILE SECRET

Listens on a free port of loopback, whose number it writes to PORT_FILE. Each request's signature (AWS SigV4) is made
again and compared. PUT /faults with words between blanks has the next requests fail so, one word each:

    fine    no fault                    error   500
    busy    503                         drop    no answer, and nothing is done
    cut     half of the body            lost    done, but the connection breaks before the answer
    slow    an answer after a second        stuck   no answer for a minute

GET /counts tells how often each word and method was served."""
import collections
import datetime
import hashlib
import hmac
import http.server
import json
import sys
import threading
import time
import urllib.parse
import xml.sax.saxutils

LOCK = threading.Lock()
OBJECTS, UPLOADS, FAULTS, COUNTS = {}, {}, collections.deque(), collections.Counter()
PAGE = 3 # entries of a listing's page, so that there are several


def sign(secret, day, region, text):
    key = ("AWS4" + secret).encode()
    for part in (day, region, "s3", "aws4_request", text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    secret = ""

    def log_message(self, format, *arguments):
        pass

    def answer(self, code, body=b"", **headers):
        fault, self.fault = self.fault, "fine"
        if fault == "lost":
            self.close_connection = True
            return
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)
        self.close_connection = self.close_connection or fault == "cut"

    def refuse(self, code, name, text=""):
        self.answer(code, f"<Error><Code>{name}</Code><Message>{text} &amp; so on</Message></Error>".encode())

    def signed(self, body):
        """Why the signature is wrong, or None."""
        given = self.headers.get("Authorization", "")
        if not given.startswith("AWS4-HMAC-SHA256 "):
            return "no signature"
        fields = dict(part.strip().split("=", 1) for part in given.split(" ", 1)[1].split(","))
        _, day, region, service, _ = fields["Credential"].split("/")
        names = fields["SignedHeaders"].split(";")
        payload = self.headers.get("x-amz-content-sha256", "")
        if payload not in ("UNSIGNED-PAYLOAD", hashlib.sha256(body).hexdigest()):
            return f"payload hash '{payload}'"
        if not {"host", "x-amz-date", "x-amz-content-sha256"} <= set(names) or service != "s3":
            return f"signed are {names} of {service}"
        path, _, query = self.path.partition("?")
        query = "&".join(sorted(query.split("&"))) if query else ""
        headers = "".join(f"{name}:{' '.join(self.headers[name].split())}\n" for name in names)
        asked = "\n".join((self.command, path, query, headers, fields["SignedHeaders"], payload))
        stamp = self.headers["x-amz-date"]
        text = "\n".join(("AWS4-HMAC-SHA256", stamp, f"{day}/{region}/s3/aws4_request",
                          hashlib.sha256(asked.encode()).hexdigest()))
        same = hmac.compare_digest(sign(self.secret, day, region, text), fields["Signature"])
        return None if same else "the signature differs"

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.fault = "fine"
        if self.path == "/counts":
            self.answer(200, json.dumps(COUNTS).encode())
            return
        if self.path == "/faults":
            with LOCK:
                FAULTS.extend(body.decode().split())
            self.answer(200)
            return
        with LOCK:
            self.fault = FAULTS.popleft() if FAULTS else "fine"
            COUNTS[self.fault] += 1
            COUNTS[self.command] += 1
        if self.fault in ("error", "busy"):
            self.refuse(500 if self.fault == "error" else 503, "SlowDown")
        elif self.fault == "drop":
            self.close_connection = True
        else:
            time.sleep({"slow": 1, "stuck": 60}.get(self.fault, 0))
            why = self.signed(body)
            if why:
                self.refuse(403, "SignatureDoesNotMatch", why)
            else:
                self.serve(body)

    do_GET = do_PUT = do_POST = do_DELETE = handle_any

    def serve(self, body):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        _, bucket, *key = url.path.split("/", 2)
        key = urllib.parse.unquote(key[0]) if key else ""
        with LOCK:
            if bucket != "bucket":
                self.refuse(404, "NoSuchBucket")
            elif not key:
                self.uploads() if "uploads" in query else self.list(query)
            elif "uploads" in query:
                UPLOADS[f"up+load/{len(UPLOADS)}"] = (key, {})
                self.answer(200, f"<R><UploadId>up+load/{len(UPLOADS) - 1}</UploadId></R>".encode())
            elif "uploadId" in query:
                self.part(key, query, body)
            elif self.command == "PUT":
                self.put(key, body)
            elif self.command == "DELETE":
                OBJECTS.pop(key, None)
                self.answer(204)
            else:
                self.get(key)

    def uploads(self):
        rows = "".join(f"<Upload><Key>{key}</Key><UploadId>{number}</UploadId>"
                       f"<Initiated>2020-01-01T00:00:00.000Z</Initiated></Upload>"
                       for number, (key, parts) in UPLOADS.items() if parts is not None)
        self.answer(200, f"<R>{rows}</R>".encode())

    def list(self, query):
        names = sorted(key for key in OBJECTS if key.startswith(query["prefix"]) and
                       key > query.get("continuation-token", "").replace(" +/", ""))
        rows = "".join(f"<Contents><Key>{xml.sax.saxutils.escape(key)}</Key><LastModified>{OBJECTS[key][1]}</LastModified>"
                       f"<Size>{len(OBJECTS[key][0])}</Size></Contents>" for key in names[:PAGE])
        if len(names) > PAGE:
            rows += f"<NextContinuationToken>{xml.sax.saxutils.escape(names[PAGE - 1])} +/</NextContinuationToken>"
        self.answer(200, f"<R>{rows}</R>".encode())

    def put(self, key, body):
        if key in OBJECTS and self.headers.get("If-None-Match") == "*":
            self.refuse(412, "PreconditionFailed")
            return
        OBJECTS[key] = (body, datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z"))
        self.answer(200, ETag='"whole"')

    def part(self, key, query, body):
        number = query["uploadId"]
        if UPLOADS.get(number, (None, None))[1] is None:
            self.refuse(404, "NoSuchUpload")
            return
        parts = UPLOADS[number][1]
        if self.command == "DELETE":
            UPLOADS[number] = (key, None)
            COUNTS["given up"] += 1
            self.answer(204)
        elif self.command == "PUT":
            parts[int(query["partNumber"])] = body
            COUNTS["part"] += 1
            self.answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        elif any(f'"{hashlib.md5(data).hexdigest()}"' not in body.decode() for data in parts.values()):
            self.refuse(400, "InvalidPart")
        else:
            self.put(key, b"".join(parts[n] for n in sorted(parts)))
            UPLOADS[number] = (key, None)

    def get(self, key):
        if key not in OBJECTS:
            self.refuse(404, "NoSuchKey")
            return
        data, range_ = OBJECTS[key][0], self.headers.get("Range", "")
        if not range_:
            self.answer(200, data)
            return
        first, last = range_.removeprefix("bytes=").split("-")
        begin = int(first) if first else max(0, len(data) - int(last))
        end = min(len(data), int(last) + 1) if first else len(data)
        self.answer(206, data[begin:end], Content_Range=f"bytes {begin}-{end - 1}/{len(data)}")


def main():
    Server.secret = sys.argv[2]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    with open(sys.argv[1] + ".part", "w", encoding="utf-8") as file:
        file.write(str(server.server_address[1]))
    import os
    os.replace(sys.argv[1] + ".part", sys.argv[1])
    server.serve_forever()


main()
