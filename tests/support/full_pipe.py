#!/usr/bin/env python3
"""full_pipe.py OUT STREAMS COMMAND...: runs COMMAND with STREAMS ("out", "err" or "out,err") as pipes that are full and
that nobody reads until the file OUT.read appears. What then comes is in OUT.out and OUT.err, the other stream goes there
directly. Signals are passed on; the exit code is the command's."""
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time

target, streams, command = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
F_SETPIPE_SZ = 1031
ends, readers = {}, {}
for name in ("out", "err"):
    if name not in streams:
        ends[name] = open(f"{target}.{name}", "wb")
        continue
    readers[name], end = os.pipe()
    fcntl.fcntl(end, F_SETPIPE_SZ, 4096)
    os.set_blocking(end, False)
    filled = 0
    try:
        while True:
            filled += os.write(end, b"\n" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(end, True)
    ends[name] = os.fdopen(end, "wb", buffering=0)

child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=ends["out"], stderr=ends["err"])
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: child.send_signal(number))
for end in ends.values():
    end.close()


def read(name):
    with open(f"{target}.{name}", "wb") as file:
        while part := os.read(readers[name], 65536):
            file.write(part.lstrip(b"\n") if file.tell() == 0 else part)
            file.flush()


def read_when_told():
    while not os.path.exists(f"{target}.read"):
        time.sleep(0.05)
    for name in readers:
        threading.Thread(target=read, args=(name,)).start()


threading.Thread(target=read_when_told, daemon=True).start()
while True:
    try:
        code = child.wait(1)
        break
    except subprocess.TimeoutExpired:
        pass
# nothing more comes: what the pipes still hold ends the readers
sys.exit(code if code >= 0 else 128 - code)
