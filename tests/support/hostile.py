"""hostile.py COMMAND: what strangers do to the control port of a trainer or a relay on 127.0.0.1.

  record LISTEN PORT FILE        passes connections on to PORT; what the first client says until it is answered WELCOME
                                 goes to FILE
  replay FILE PORT SECONDS       says that again and again on connections of its own; prints what came of it
  crowd PORT SECONDS PLACES      connects without a word, again whenever it is closed
  ping FILE PORT NAME SECONDS    joins as NAME with nothing and only says PING
  dial FILE PORT NAME IP         joins as NAME with the fabric address IP; prints the answer

Written from docs/WIRE_FORMAT.md alone; FILE of the last two is what `record` wrote."""

import select
import socket
import struct
import sys
import threading
import time

HELLO, WELCOME, REFUSE, PING, GREETING = 1, 2, 3, 13, 27


def connect(port):
    end = socket.socket()
    end.settimeout(10)
    end.connect(("127.0.0.1", port))
    return end


def message(kind, body):
    return struct.pack("<IHH", len(body), kind, 0) + body


def read(end, count):
    data = b""
    while len(data) < count:
        part = end.recv(count - len(data))
        if not part:
            return b""
        data += part
    return data


def hear(end):
    """The next message: its type, 0 at the end of the connection, and its body."""
    try:
        prefix = read(end, 8)
        if not prefix:
            return 0, b""
        length, kind, _ = struct.unpack("<IHH", prefix)
        return kind, read(end, length)
    except OSError:
        return 0, b""


def notice(body):
    return body[14 : 14 + struct.unpack("<H", body[12:14])[0]].decode()


# ---- record, replay


def record(listen, port, path):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", listen))
    server.listen()
    first = True
    while True:
        client, _ = server.accept()
        threading.Thread(target=pass_on, args=(client, port, path if first else None), daemon=True).start()
        first = False


def pass_on(client, port, path):
    said, answered = b"", False
    trainer = connect(port)
    while True:
        ready, _, _ = select.select([client, trainer], [], [])
        for end in ready:
            data = end.recv(65536)
            if not data:
                client.close()
                trainer.close()
                return
            (trainer if end is client else client).sendall(data)
            if end is client and not answered:
                said += data
            elif data[4] == WELCOME and path and not answered:
                answered = True
                with open(path, "wb") as file:
                    file.write(said)


def messages(path):
    data, found = open(path, "rb").read(), []
    while data:
        length = struct.unpack("<I", data[:4])[0]
        found.append(data[: 8 + length])
        data = data[8 + length :]
    return found


def replay(path, port, seconds):
    count, answers, until = 0, {}, time.monotonic() + seconds
    while time.monotonic() < until:
        count += 1
        try:
            end = connect(port)
            for one in messages(path):
                end.sendall(one)
            kind, body = hear(end)
            if kind == GREETING:
                kind, body = hear(end)
            what = notice(body) if kind == REFUSE else {WELCOME: "WELCOME", 0: "closed"}.get(kind, str(kind))
        except OSError as error:
            what = str(error)
        answers[what] = answers.get(what, 0) + 1
        end.close()
        time.sleep(0.02)
    print(f"{count} replays: {answers}")


# ---- crowd


def crowd(port, seconds, places):
    ends, opened, until = [], 0, time.monotonic() + seconds
    while time.monotonic() < until:
        while len(ends) < places:
            ends.append(connect(port))
            opened += 1
        gone, _, _ = select.select(ends, [], [], 0.05)
        for end in gone:
            try:
                left = bool(end.recv(1, socket.MSG_DONTWAIT))
            except OSError:
                left = False
            if not left:
                ends.remove(end)
                end.close()
    print(f"{opened} connections without a word")


# ---- a HELLO of its own


def greet(port):
    """Knocks; the connection and its nonce."""
    end = connect(port)
    end.sendall(message(HELLO, b"WEFT" + struct.pack("<HHBH", 3, 0, 2, 3)))
    kind, body = hear(end)
    if kind != GREETING:
        raise SystemExit(f"no greeting: message {kind}, {notice(body) if kind == REFUSE else ''}")
    return end, body[10:18]


def hello(path, nonce, name, ip=None, holds=True):
    """The recorded HELLO with another nonce, name, incarnation, fabric address, and with or without what it holds."""
    old = messages(path)[-1][8:]
    at = 17 + 2 + struct.unpack("<H", old[17:19])[0]
    head = old[:9] + nonce + struct.pack("<H", len(name)) + name.encode()
    fixed = old[at + 8 : at + 8 + 56]  # identity, authentication
    at += 8 + 56
    held = old[at : at + 33] if holds else b"\0" * 33
    start = at = at + 33
    at += 1  # staged
    for _ in range(3):  # differs, provider, backend
        at += 2 + struct.unpack("<H", old[at : at + 2])[0]
    at += 4
    length = struct.unpack("<H", old[at : at + 2])[0]
    address = old[at + 2 : at + 2 + length]
    if ip:  # a socket address, IPv4
        address = address[:4] + socket.inet_aton(ip) + address[8:]
    body = head + struct.pack("<Q", 1) + fixed + held + old[start : at + 2] + address + old[at + 2 + length :]
    return message(HELLO, body)


def ping(path, port, name, seconds):
    end, nonce = greet(port)
    end.sendall(hello(path, nonce, name, holds=False))
    kind, body = hear(end)
    if kind != WELCOME:
        raise SystemExit(f"not joined: {notice(body) if kind == REFUSE else kind}")
    print("joined", flush=True)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            end.sendall(message(PING, b"\0" * 8))
        except OSError:
            print("gave way")
            return
        ready, _, _ = select.select([end], [], [], 0.2)
        if ready and not end.recv(65536):
            print("gave way")
            return


def dial(path, port, name, ip):
    end, nonce = greet(port)
    end.sendall(hello(path, nonce, name, ip))
    kind, body = hear(end)
    print({WELCOME: "WELCOME", 0: "closed"}.get(kind) or f"REFUSE {notice(body)}")


def main(command, *words):
    ways = {"record": record, "replay": replay, "crowd": crowd, "ping": ping, "dial": dial}
    ways[command](*(int(word) if word.isdigit() else word for word in words))


if __name__ == "__main__":
    main(*sys.argv[1:])
