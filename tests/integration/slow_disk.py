"""A file system whose reads and writes take as long as a test likes, as those of a slow disk do.

It speaks the kernel's FUSE protocol (linux/fuse.h) itself and needs no library. Mounting requires
root and /dev/fuse.
"""

import ctypes
import errno
import os
import select
import stat
import struct
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

LOOKUP, FORGET, GETATTR, OPEN, READ, WRITE, RELEASE = 1, 2, 3, 14, 15, 16, 18
INIT, INTERRUPT, BATCH_FORGET = 26, 36, 42
WITHOUT_ANSWER = {FORGET, BATCH_FORGET, INTERRUPT}
ROOT = 1
MS_NOSUID, MS_NODEV, MS_RDONLY, MNT_DETACH = 2, 4, 1, 2
VALID_S = 3600
READ_MAX = 128 << 10

libc = ctypes.CDLL(None, use_errno=True)


def is_available() -> bool:
    """Return whether file systems can be mounted here."""
    return os.geteuid() == 0 and os.access("/dev/fuse", os.R_OK | os.W_OK)


def called(result: int) -> None:
    """Raise the error of a call of the C library, if it has failed."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class SlowDisk:
    """Mounts files; reads and writes of those that begin with "slow" wait until they are released.

    What is written is stored nowhere.
    """

    def __init__(self, folder: Path, files: dict[str, bytes], is_writable: bool = False) -> None:
        """Mount it on folder."""
        self.folder = folder
        self.names = list(files)
        self.contents = list(files.values())
        self.lock = threading.Lock()
        self.waiting: list[tuple[int, bytes]] | None = []
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        self.stop_reader, self.stop_writer = os.pipe()
        options = f"fd={self.fd},rootmode=40000,user_id=0,group_id=0,allow_other"
        options += f",max_read={READ_MAX}"
        flags = MS_NOSUID | MS_NODEV | (0 if is_writable else MS_RDONLY)
        target = os.fsencode(folder)
        try:
            called(libc.mount(b"slow-disk", target, b"fuse.slow", flags, options.encode()))
        except OSError:
            for fd in (self.fd, self.stop_reader, self.stop_writer):
                os.close(fd)
            raise
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def __enter__(self) -> Self:
        """Return the file system."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Unmount it; reads that still wait fail."""
        called(libc.umount2(os.fsencode(self.folder), MNT_DETACH))
        os.close(self.stop_writer)
        self.thread.join()
        os.close(self.fd)
        os.close(self.stop_reader)

    def run(self) -> None:
        """Answer requests until it is unmounted."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        poll.register(self.stop_reader, select.POLLIN)
        while all(fd == self.fd for fd, _ in poll.poll()):
            try:
                request = os.read(self.fd, READ_MAX + 8192)
            except OSError as error:
                if error.errno in {errno.ENOENT, errno.EAGAIN}:
                    continue
                return
            _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
            if opcode not in WITHOUT_ANSWER:
                self.answer(unique, opcode, node, request[40:])

    def reply(self, unique: int, error: int, body: bytes = b"") -> None:
        """Send an answer; the caller may have been interrupted meanwhile."""
        message = struct.pack("<IiQ", 16 + len(body), -error, unique) + body
        try:
            os.write(self.fd, message)
        except OSError as failure:
            if failure.errno not in {errno.ENOENT, errno.ENODEV, errno.EBADF}:
                raise

    def answer(self, unique: int, opcode: int, node: int, body: bytes) -> None:
        """Answer a request."""
        if opcode == INIT:
            major, _, ahead, _ = struct.unpack_from("<IIII", body)
            limits = struct.pack("<HHIIHH32x", 64, 48, READ_MAX, 1, 0, 0)
            self.reply(unique, 0, struct.pack("<IIII", major, 31, ahead, 1) + limits)
        elif opcode == LOOKUP:
            name = body.rstrip(b"\0").decode()
            if name not in self.names:
                self.reply(unique, errno.ENOENT)
                return
            found = self.names.index(name) + ROOT + 1
            head = struct.pack("<QQQQII", found, 0, VALID_S, VALID_S, 0, 0)
            self.reply(unique, 0, head + self.attributes(found))
        elif opcode == GETATTR:
            self.reply(unique, 0, struct.pack("<QII", VALID_S, 0, 0) + self.attributes(node))
        elif opcode == OPEN:
            self.reply(unique, 0, struct.pack("<QII", 0, 2, 0))
        elif opcode == READ:
            self.read(unique, node, body)
        elif opcode == WRITE:
            _, _, size = struct.unpack_from("<QQI", body)
            self.finish(unique, node, struct.pack("<II", size, 0))
        elif opcode == RELEASE:
            self.reply(unique, 0)
        else:
            self.reply(unique, errno.ENOSYS)

    def attributes(self, node: int) -> bytes:
        """Return a struct fuse_attr."""
        is_root = node == ROOT
        size = 0 if is_root else len(self.contents[node - ROOT - 1])
        mode = stat.S_IFDIR | 0o755 if is_root else stat.S_IFREG | 0o644
        times = (1_700_000_000,) * 3
        fields = (node, size, (size + 511) // 512, *times, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
        return struct.pack("<QQQQQQIIIIIIIIII", *fields)

    def read(self, unique: int, node: int, body: bytes) -> None:
        """Answer a read, now or when reads are released."""
        _, offset, size = struct.unpack_from("<QQI", body)
        found = node - ROOT - 1
        self.finish(unique, node, self.contents[found][offset : offset + size])

    def finish(self, unique: int, node: int, result: bytes) -> None:
        """Answer a request for a file, now or when those are released."""
        with self.lock:
            if self.names[node - ROOT - 1].startswith("slow") and self.waiting is not None:
                self.waiting.append((unique, result))
                return
        self.reply(unique, 0, result)

    def is_used(self) -> bool:
        """Return whether a read or a write waits."""
        with self.lock:
            return bool(self.waiting)

    def release(self) -> None:
        """Answer the reads and writes that wait; from now on none does."""
        with self.lock:
            waiting, self.waiting = self.waiting or [], None
        for unique, part in waiting:
            self.reply(unique, 0, part)
