"""A TCP proxy on loopback before a trainer's control port: proxy.py PORT record|ping FILE; prints its own port.

record  passes everything, and writes the latest HELLO (message 1) to FILE as it was sent
ping    passes the handshake, and from the rollout's second message on PING and PONG alone: a peer that answers and
        takes nothing. Nothing here knows what the messages hold."""
import socket
import sys
import threading

HELLO, PING, PONG = 1, 13, 14
port, mode, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]


def exactly(source, count):
    data = b""
    while len(data) < count:
        more = source.recv(count - len(data))
        if not more:
            raise OSError("closed")
        data += more
    return data


def message(source):
    prefix = exactly(source, 8)
    return int.from_bytes(prefix[4:6], "little"), prefix + exactly(source, int.from_bytes(prefix[:4], "little"))


def upwards(rollout, trainer):
    greeted = False
    while True:
        kind, data = message(rollout)
        if kind == HELLO and mode == "record":
            with open(path, "wb") as file:
                file.write(data)
        if mode == "record" or not greeted or kind in (PING, PONG):
            trainer.sendall(data)
        greeted = greeted or kind == HELLO


def downwards(trainer, rollout):
    while True:
        data = trainer.recv(65536)
        if not data:
            raise OSError("closed")
        rollout.sendall(data)


def until_closed(passing, source, sink):
    try:
        passing(source, sink)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    below, _ = listener.accept()
    try:
        above = socket.create_connection(("127.0.0.1", port))
    except OSError:
        below.close()
        continue
    for end in (below, above):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=until_closed, args=(upwards, below, above), daemon=True).start()
    threading.Thread(target=until_closed, args=(downwards, above, below), daemon=True).start()
