"""Who annoys a fleet from outside: strangers.py KIND PORT ..., from 127.0.0.9.

garbage PORT COUNT RATE      COUNT connections that say 100 random bytes, RATE a second
bare PORT COUNT RATE         COUNT connections that are closed without a word
silent PORT COUNT RATE       COUNT connections without a word, up to 100 of them open, each for 6 s at most
replay PORT COUNT RATE FILE  COUNT connections that say what is in FILE, and stay open for a second
A count of 0 goes on until the process is killed, all others end after 30 s. Prints what came of it."""
import itertools
import os
import select
import socket
import sys
import time

kind, port, count, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
recorded = open(sys.argv[5], "rb").read() if kind == "replay" else b""
stay = {"garbage": 0.5, "bare": 0, "silent": 6, "replay": 1}[kind]
made = refused = answered = 0
opened = []  # (when, socket)


def dial():
    global made, refused
    stranger = socket.socket()
    stranger.settimeout(0.2)
    try:
        stranger.bind(("127.0.0.9", 0))
        stranger.connect(("127.0.0.1", port))
        made += 1
        if kind == "replay" and select.select([stranger], [], [], 0.005)[0]:
            stranger.recv(4096)  # the listener may speak first
        if kind in ("garbage", "replay"):
            stranger.sendall(os.urandom(100) if kind == "garbage" else recorded)
    except OSError:
        refused += 1
    opened.append((time.monotonic(), stranger))


def leave(most):
    """Closes what has stayed long enough, or was closed by the other end, or is too much."""
    global answered
    at = time.monotonic()
    for item in list(opened):
        when, stranger = item
        over = len(opened) > most or at - when >= stay
        if not over and select.select([stranger], [], [], 0)[0]:
            try:
                over = not stranger.recv(4096)
                answered += not over
            except OSError:
                over = True
        if over:
            stranger.close()
            opened.remove(item)


begin = time.monotonic()
try:
    for number in range(count) if count else itertools.count():
        if count and time.monotonic() - begin > 30:
            break  # nobody accepts any more
        time.sleep(max(0, begin + number / rate - time.monotonic()))
        leave(99 if kind == "silent" else 1000)
        dial()
except KeyboardInterrupt:
    pass
print(f"{made} connects, {refused} refused", flush=True)
