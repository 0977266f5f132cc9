"""Runs a command on a terminal of 40 x 123, resizes that to 41 x 124 once the command says "ready", and shows what it said."""
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

DEADLINE = time.monotonic() + 60


def resize(rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


begin, release = os.pipe()
child, terminal = pty.fork()
if child == 0:
    os.read(begin, 1)  # not before the terminal has its size
    os.execvp(sys.argv[1], sys.argv[1:])
resize(40, 123)
os.write(release, b"x")
said, resized = b"", False
while time.monotonic() < DEADLINE:
    if terminal not in select.select([terminal], [], [], 1)[0]:
        continue
    try:
        more = os.read(terminal, 4096)
    except OSError:
        more = b""
    if not more:
        break
    said += more
    if b"ready" in said and not resized:
        resized = True
        resize(41, 124)
        os.kill(child, signal.SIGWINCH)
else:
    os.kill(child, signal.SIGKILL)
print(said.decode(errors="replace"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
