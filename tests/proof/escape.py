"""Run inside the unit's sandbox: tries everything that somebody would who had taken over the daemon."""

import ctypes
import errno
import json
import mmap
import os
import socket
import time
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
STATE = os.environ.get("STATE_DIRECTORY", "/var/lib/logwatch")


def call(name, *arguments):
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def syscall(number, *arguments):
    if libc.syscall(number, *arguments) == -1:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def write(path):
    Path(path).write_text("x")


def read(path):
    Path(path).read_bytes()


def others():
    ours = {str(os.getpid()), str(os.getppid())}
    if not [path for path in Path("/proc").iterdir() if path.name.isdigit() and path.name not in ours]:
        raise OSError("nobody else is to be seen")


def set_user_id():
    path = f"{STATE}/suid"
    write(path)
    Path(path).chmod(0o4755)


def reboot():
    """With wrong magic numbers: who may not is refused before they are looked at, who may is told of them."""
    try:
        syscall(169, 0, 0, 0, 0)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def set_the_clock():
    """To what it is."""
    now = time.time_ns()
    syscall(227, 0, ctypes.byref((ctypes.c_long * 2)(now // 10**9, now % 10**9)))


ATTEMPTS = {
    "write /etc": lambda: write("/etc/escaped"),
    "write /usr": lambda: write("/usr/bin/escaped"),
    "write /var/lib": lambda: write("/var/lib/escaped"),
    "write the logs": lambda: write("/shared/escaped.log"),
    "write /root": lambda: write("/root/escaped"),
    "read /root": lambda: read("/root/secret"),
    "read /home": lambda: read("/home/me/secret"),
    "read /etc/shadow": lambda: read("/etc/shadow"),
    "see other processes": others,
    "signal process 1": lambda: os.kill(1, 0),
    "look into process 1": lambda: read("/proc/1/environ"),
    "become root": lambda: os.setuid(0),
    "a set-user-id program": set_user_id,
    "a new user namespace": lambda: call("unshare", 0x10000000),
    "a new mount namespace": lambda: call("unshare", 0x00020000),
    "mount": lambda: call("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, None),
    "chroot": lambda: os.chroot("/tmp"),
    "a device node": lambda: os.mknod(f"{STATE}/mem", 0o020600, os.makedev(1, 1)),
    "raw packets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close(),
    "raw IP": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close(),
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close(),
    "memory to write and run": lambda: mmap.mmap(-1, 4096, prot=7).close(),
    "the host's name": lambda: call("sethostname", b"escaped", 7),
    "the clock": set_the_clock,
    "kernel settings": lambda: write("/proc/sys/kernel/domainname"),
    "cgroups": lambda: Path("/sys/fs/cgroup/escaped").mkdir(),
    "a kernel module": lambda: syscall(175, b"", 0, b""),
    "bpf": lambda: syscall(321, 0, 0, 0),
    "another personality": lambda: syscall(135, 0x0040000),
    "reboot": reboot,
    "real-time priority": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
}
ALLOWED = {
    "write its state": lambda: write(f"{STATE}/mine"),
    "write /tmp of its own": lambda: write("/tmp/private"),
    "read the logs": lambda: read("/shared/server.log"),
    "a TCP port": lambda: socket.create_server(("127.0.0.1", 0)).close(),
}


def tried(attempts):
    return {name: in_a_child(attempt) for name, attempt in attempts.items()}


def in_a_child(attempt):
    """What came of an attempt, made where it can change nothing for the next one."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        said = "done"
        try:
            attempt()
        except (OSError, RuntimeError, ValueError) as error:
            said = f"refused: {error}"
        os.write(theirs, said.encode())
        os._exit(0)
    os.close(theirs)
    said = b""
    while piece := os.read(ours, 1000):
        said += piece
    os.close(ours)
    _, status = os.waitpid(child, 0)
    return said.decode() if said else f"refused: it died of status {status}"


if __name__ == "__main__":
    Path(f"{STATE}/escape.json").write_text(
        json.dumps({"attempts": tried(ATTEMPTS), "allowed": tried(ALLOWED)})
    )
