#!/usr/bin/env python3
"""An object server for tests: what stores of weft ask of S3, in memory, with faults on demand.

    s3_server.py PORT_FILE SECRET

Listens on a free port of loopback, whose number it writes to PORT_FILE. Each request's signature (AWS SigV4) is made
again and compared. PUT /faults with words between blanks has the next requests fail so, one word each:

    fine    no fault                    error   500
    busy    503                         drop    no answer, and nothing is done
    cut     half of the body            lost    done, but the connection breaks before the answer
    slow    an answer after a second        stuck   no answer for a minute
    denied  403                             login   200 with a page of HTML, as a portal answers
    half    half of the body, of no length  endless a body of no length that goes on for 256 MiB
    drip    2 bytes a second
    blanks  blanks before the body, eight a second for 25 seconds
    kept    as lost, at the end of parts, which are still there
    round   a page of a listing that is followed by itself
    empty   a page of a listing without names, which another one follows

PUT /always with a word and a part of a path has all requests for such paths fail so, until the word is fine.
    meet    waits for another of its kind, counted as met when that is under way at the same time

GET /counts tells how often each word and method was served.

The same server stands in for those that give credentials: STS (POST /, for the web identity "identity"), an instance's
metadata (IMDSv2), and a container's agent (GET /container, for the token "agent"). What they give is good for as many
seconds as PUT /life says. GET /flood has a MiB of no credentials."""
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
ROLES = {} # id: secret, token, end
LIFE = [3600.0]
OLD, PART_TIME = "2020-01-01T00:00:00.000Z", {} # when parts came
ALWAYS = ["fine", ""] # a fault, and a part of the paths that it befalls
MEETING = threading.Barrier(2, timeout=10)
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
        if fault in ("lost", "kept"):
            self.close_connection = True
            return
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if fault not in ("half", "endless"):
            self.send_header("Content-Length", str(len(body) + (200 if fault == "blanks" else 0)))
        self.end_headers()
        self.close_connection = self.close_connection or fault != "fine"
        for _ in range(25 if fault == "blanks" else 0):
            self.wfile.write(b" " * 8)
            time.sleep(1)
        if fault == "drip":
            for at in range(0, len(body), 2):
                self.wfile.write(body[at : at + 2])
                time.sleep(1)
        elif fault == "endless":
            for _ in range(256):
                self.wfile.write(b"<ListBucketResult>" + b" " * (1 << 20))
        else:
            self.wfile.write(body[: len(body) // 2] if fault in ("cut", "half") else body)

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
        secret, token, _ = ROLES.get(fields["Credential"].split("/")[0], (self.secret, None, 0))
        if self.headers.get("x-amz-security-token") != token or (token and "x-amz-security-token" not in names):
            return "another session's token"
        same = hmac.compare_digest(sign(secret, day, region, text), fields["Signature"])
        return None if same else "the signature differs"

    def expired(self):
        identity = self.headers.get("Authorization", "").partition("Credential=")[2].split("/")[0]
        return identity in ROLES and ROLES[identity][2] < time.time()

    def role(self, kind, ask):
        """New credentials, as `ask` writes their names."""
        with LOCK:
            COUNTS[kind] += 1
            identity, end = f"ROLE{len(ROLES)}", time.time() + LIFE[0]
            ROLES[identity] = (f"secret/+{len(ROLES)}", f"token/+={len(ROLES)}", end)
        stamp = datetime.datetime.fromtimestamp(end + 0.999, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        secret, token, _ = ROLES[identity]
        self.answer(200, ask(identity, secret, token, stamp).encode())

    def credentials(self, body):
        """Whether the request was for credentials, and was served."""
        as_json = lambda *values: json.dumps(dict(zip(
            ("AccessKeyId", "SecretAccessKey", "Token", "Expiration"), values), Code="Success"), indent=1).replace("/", "\\/")
        as_xml = lambda *values: "<R><Credentials>" + "".join(f"<{name}>{value}</{name}>" for name, value in zip(
            ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"), values)) + "</Credentials></R>"
        metadata = "/latest/meta-data/iam/security-credentials/"
        if self.command == "POST" and self.path == "/":
            asked = dict(urllib.parse.parse_qsl(body.decode()))
            good = asked["Action"] == "AssumeRoleWithWebIdentity" and asked["WebIdentityToken"] == "identity/+ é" and \
                asked["RoleArn"] == "arn:aws:iam::1:role/reader" and asked["RoleSessionName"]
            self.role("sts", as_xml) if good else self.refuse(403, "AccessDenied", "another identity")
        elif self.path == "/container":
            good = self.headers.get("Authorization") == "agent"
            self.role("container", as_json) if good else self.refuse(401, "Unauthorized")
        elif self.path == "/flood":
            self.answer(200, b"x" * (1 << 20))
        elif self.path == "/latest/api/token":
            good = self.command == "PUT" and self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
            self.answer(200, b"metadata") if good else self.refuse(400, "BadRequest")
        elif self.path.startswith(metadata):
            if self.headers.get("X-aws-ec2-metadata-token") != "metadata":
                self.refuse(401, "Unauthorized")
            elif self.path == metadata:
                self.answer(200, b"role-of-host\n")
            else:
                self.role("instance", as_json) if self.path.endswith("/role-of-host") else self.refuse(404, "NoRole")
        else:
            return False
        return True

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.fault = "fine"
        if self.path == "/life":
            LIFE[0] = float(body)
            self.answer(200)
            return
        if self.credentials(body):
            return
        if self.path == "/counts":
            self.answer(200, json.dumps(COUNTS).encode())
            return
        if self.path == "/faults":
            with LOCK:
                FAULTS.extend(body.decode().split())
            self.answer(200)
            return
        if self.path == "/always":
            ALWAYS[:] = (body.decode().split() + [""])[:2]
            self.answer(200)
            return
        with LOCK:
            self.fault = FAULTS.popleft() if FAULTS else ALWAYS[0] if ALWAYS[1] in self.path else "fine"
            COUNTS[self.fault] += 1
            COUNTS[self.command] += 1
        if self.fault in ("error", "busy"):
            self.refuse(500 if self.fault == "error" else 503, "SlowDown")
        elif self.fault == "denied":
            self.refuse(403, "AccessDenied")
        elif self.fault == "login":
            self.answer(200, b"<html><head><title>Sign in</title></head>" + b" " * 1000 + b"</html>")
        elif self.fault == "drop":
            self.close_connection = True
        else:
            time.sleep({"slow": 1, "stuck": 60}.get(self.fault, 0))
            if self.fault == "meet":
                self.meet()
            why = self.signed(body)
            if self.expired():
                COUNTS["expired"] += 1
                self.refuse(400, "ExpiredToken")
            elif why:
                self.refuse(403, "SignatureDoesNotMatch", why)
            else:
                self.serve(body)

    def meet(self):
        try:
            MEETING.wait()
            with LOCK:
                COUNTS["met"] += 1
        except threading.BrokenBarrierError:
            MEETING.reset()

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
                self.uploads(query) if "uploads" in query else self.list(query)
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

    def uploads(self, query):
        rows = "".join(f"<Upload><Key>{key}</Key><UploadId>{number}</UploadId>"
                       f"<Initiated>2020-01-01T00:00:00.000Z</Initiated></Upload>"
                       for number, (key, parts) in UPLOADS.items()
                       if parts is not None and key.startswith(query.get("prefix", "")))
        self.answer(200, f"<ListMultipartUploadsResult>{rows}</ListMultipartUploadsResult>".encode())

    def list(self, query):
        if self.fault in ("round", "empty"):
            token = "same" if self.fault == "round" else str(time.time())
            self.answer(200, f"<ListBucketResult><NextContinuationToken>{token}</NextContinuationToken>"
                             f"<IsTruncated>true</IsTruncated></ListBucketResult>".encode())
            return
        names = sorted(key for key in OBJECTS if key.startswith(query["prefix"]) and
                       key > query.get("continuation-token", "").replace(" +/", ""))
        rows = "".join(f"<Contents><Key>{xml.sax.saxutils.escape(key)}</Key><LastModified>{OBJECTS[key][1]}</LastModified>"
                       f"<Size>{len(OBJECTS[key][0])}</Size></Contents>" for key in names[:PAGE])
        if len(names) > PAGE:
            rows += f"<NextContinuationToken>{xml.sax.saxutils.escape(names[PAGE - 1])} +/</NextContinuationToken>"
        rows += f"<IsTruncated>{str(len(names) > PAGE).lower()}</IsTruncated>"
        self.answer(200, f"<ListBucketResult xmlns='x'>{rows}</ListBucketResult>".encode())

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
        if self.command == "GET": # one part a page, each as old as it is told to be
            left = sorted(n for n in parts if n > int(query["part-number-marker"]))
            rows = "".join(f"<Part><PartNumber>{n}</PartNumber><LastModified>{PART_TIME.get((number, n), OLD)}</LastModified></Part>"
                           for n in left[:1])
            self.answer(200, f"<ListPartsResult><IsTruncated>{str(len(left) > 1).lower()}</IsTruncated>"
                             f"<NextPartNumberMarker>{left[0] if left else 0}</NextPartNumberMarker>{rows}</ListPartsResult>".encode())
        elif self.command == "DELETE":
            UPLOADS[number] = (key, None)
            COUNTS["given up"] += 1
            self.answer(204)
        elif self.command == "PUT":
            parts[int(query["partNumber"])] = body
            if query["partNumber"] == "2": # the others' times tell nothing
                PART_TIME[number, 2] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
            COUNTS["part"] += 1
            self.answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        elif any(f'"{hashlib.md5(data).hexdigest()}"' not in body.decode() for data in parts.values()):
            self.refuse(400, "InvalidPart")
        else:
            left = parts if self.fault == "kept" else None
            self.put(key, b"".join(parts[n] for n in sorted(parts)))
            UPLOADS[number] = (key, left)

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
    server.handle_error = lambda *of: None # a client that goes away in the middle of an answer
    with open(sys.argv[1] + ".part", "w", encoding="utf-8") as file:
        file.write(str(server.server_address[1]))
    import os
    os.replace(sys.argv[1] + ".part", sys.argv[1])
    server.serve_forever()


main()
