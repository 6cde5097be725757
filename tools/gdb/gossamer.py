"""User-level threads in gdb: in a live process and in a core.

(gdb) source tools/gdb/gossamer.py
(gdb) gossamer threads             number, name, state, what each waits for and since when
(gdb) gossamer bt N                its calls; N may also be an address, a name, or "all"
(gdb) gossamer thread N            look at it: up, down, bt, info locals and print work
(gdb) gossamer thread              back to the kernel thread

Nothing in the process is changed: a thread that does not run is shown by an unwinder that tells gdb
that the newest frame of the selected kernel thread was called by the thread's last one. The
library's debug information is needed.
"""

import time
from collections.abc import Iterator

import gdb
import gdb.unwinder

PAGE = 4096
# Where a descriptor stands in its slot, as src/thread/stacks.c places it.
LINE = 64
COLOURS = 8

WAITING, LEAVING = 1, 3  # enum claim


class Registers:
    """What a stack holds that was left, as src/thread/context.h lays it out."""

    def __init__(self, sp: int) -> None:
        """Read what was left at sp."""
        if gdb.selected_frame().architecture().name().startswith("aarch64"):
            names = ["x29", "x30", *(f"x{n}" for n in range(19, 29))]
            words = _words(sp, len(names))
            self.saved = dict(zip(names, words, strict=True))
            self.pc, self.sp = self.saved["x30"], sp + 176
            self.saved |= {"pc": self.pc, "sp": self.sp}
        else:
            names = ["r15", "r14", "r13", "r12", "rbx", "rbp", "rip"]
            words = _words(sp + 8, len(names))
            self.saved = dict(zip(names, words, strict=True))
            self.pc, self.sp = self.saved["rip"], sp + 8 + 8 * len(names)
            self.saved["rsp"] = self.sp


def _words(address: int, count: int) -> list[int]:
    memory = gdb.selected_inferior().read_memory(address, 8 * count)
    return list(memory.cast("B").cast("Q"))


def _string(value: gdb.Value) -> str:
    return value.string(errors="replace")


class Process:
    """The runtime that the process holds."""

    def __init__(self) -> None:
        """Find it, by the library's debug information."""
        symbol = gdb.lookup_global_symbol("gs_runtime")
        if not symbol:
            raise gdb.GdbError("gossamer: this program has no debug information of the library")
        if not gdb.selected_thread():
            raise gdb.GdbError("gossamer: there is no process, nor a core")
        self.runtime = symbol.value()
        self.thread_type = gdb.lookup_type("struct gs_thread")
        workers = self.runtime["workers"]
        count = int(self.runtime["worker_count"]) if int(workers) else 0
        self.workers = [workers[i].dereference() for i in range(count)]
        self.running = {int(w["current"]): int(w["kernel_id"]) for w in self.workers}

    def threads(self) -> Iterator["Thread"]:
        """All that have not ended: those on the runtime's stacks, then those on the program's."""
        for slots in self._classes():
            yield from self._threads_of(slots)
        head = self.runtime["caller_threads"]
        link = head["next"]
        offset = next(f.bitpos // 8 for f in self.thread_type.fields() if f.name == "link")
        while int(link) and int(link) != int(head.address):
            yield Thread(self, self._thread_at(int(link) - offset))
            link = link["next"]

    def find(self, text: str) -> "Thread":
        """The thread with this number, address or name."""
        for number, thread in enumerate(self.threads(), 1):
            if text in (str(number), thread.name) or text == hex(thread.address):
                return thread
        raise gdb.GdbError(f"gossamer: there is no thread {text}: see gossamer threads")

    def now_ns(self) -> int:
        """Return the monotonic clock; of a core, what the workers saw of it last."""
        connection = gdb.selected_inferior().connection
        if connection and connection.type == "native":
            return time.monotonic_ns()
        return max((int(w["now_ns"].dereference()) for w in self.workers), default=0)

    def _classes(self) -> list[gdb.Value]:
        for symbol in gdb.lookup_static_symbols("classes"):
            if symbol.type.strip_typedefs().code != gdb.TYPE_CODE_ARRAY:
                continue
            if symbol.type.target().unqualified().name == "stack_class":
                first, last = symbol.type.range()
                return [symbol.value()[i] for i in range(first, last + 1)]
        raise gdb.GdbError("gossamer: this program has no debug information about stacks")

    def _threads_of(self, slots: gdb.Value) -> Iterator["Thread"]:
        base, size = int(slots["base"]), int(slots["slot_size"])
        room = (self.thread_type.sizeof + LINE - 1) // LINE * LINE
        for i in range(int(slots["used"])):
            value = self._thread_at(base + (i + 1) * size - i % COLOURS * LINE - room)
            if value["is_live"] and not value["is_done"]:
                yield Thread(self, value)

    def _thread_at(self, address: int) -> gdb.Value:
        return gdb.Value(address).cast(self.thread_type.pointer()).dereference()


class Thread:
    """A user thread."""

    def __init__(self, process: Process, value: gdb.Value) -> None:
        """Read its descriptor."""
        self._process, self._value = process, value
        self.address = int(value.address)
        self.name = _string(value["name"])
        self.kernel_id = process.running.get(self.address)

    def state(self, now_ns: int) -> str:
        """Say what it does, or what it waits for and since when."""
        value = self._value
        if self.kernel_id is not None:
            return f"runs in kernel thread {self.kernel_id}"
        if int(value["claim"]) in (WAITING, LEAVING):
            what, at = _string(value["waits"]["what"]), int(value["waits_at"])
            since_ms = max(now_ns - int(value["since_ns"]), 0) / 1e6
            return f"waits for {what}{f' at {at:#x}' if at else ''} since {since_ms:.3f} ms"
        return "is ready" if value["worker"] else "is to be started"

    def registers(self) -> Registers | None:
        """Return where it goes on; None: it has not begun."""
        registers = Registers(int(self._value["sp"]))
        start = gdb.lookup_minimal_symbol("gs_context_start") if _has_minimal() else None
        begins = start and int(start.value().address) == registers.pc
        return None if begins or _symbol_at(registers.pc) == "gs_context_start" else registers

    def begins_in(self) -> str:
        """Return the function that it has not called yet."""
        return str(self._value["fn"])


def _has_minimal() -> bool:
    return hasattr(gdb, "lookup_minimal_symbol")


def _symbol_at(pc: int) -> str:
    text = gdb.execute(f"info symbol {pc:#x}", to_string=True)
    return text.split()[0] if " in section" in text else ""


class _FrameId:
    def __init__(self, sp: int, pc: int) -> None:
        self.sp = gdb.Value(sp)
        self.pc = gdb.Value(pc)


class Unwinder(gdb.unwinder.Unwinder):
    """Has the newest frame of a kernel thread seem called by a user thread's."""

    def __init__(self) -> None:
        """Show nobody."""
        super().__init__("gossamer")
        self._registers: Registers | None = None
        self._ptid: tuple[int, int, int] | None = None

    def show(self, registers: Registers | None) -> None:
        """Show this one in the selected kernel thread; None: nobody."""
        self._registers = registers
        self._ptid = gdb.selected_thread().ptid if registers else None
        gdb.invalidate_cached_frames()

    def __call__(self, pending_frame: gdb.PendingFrame) -> gdb.UnwindInfo | None:
        """Unwind a frame for gdb, which then asks no other unwinder; None: not this one."""
        registers = self._registers
        if not registers or pending_frame.level() or gdb.selected_thread().ptid != self._ptid:
            return None
        word = gdb.lookup_type("unsigned long")
        info = pending_frame.create_unwind_info(_FrameId(registers.sp - 16, registers.pc))
        for name, value in registers.saved.items():
            info.add_saved_register(name, gdb.Value(value).cast(word))
        return info


unwinder = Unwinder()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)
gdb.events.cont.connect(lambda _: unwinder.show(None))


def _select_kernel_thread(kernel_id: int) -> None:
    for thread in gdb.selected_inferior().threads():
        if kernel_id in thread.ptid[1:]:
            thread.switch()
            return
    raise gdb.GdbError(f"gossamer: gdb knows of no kernel thread {kernel_id}")


def _calls(thread: Thread) -> Iterator[str]:
    """Yield the lines that gdb shows for the thread's frames; the selected kernel thread stays."""
    before = gdb.selected_thread()
    unwinder.show(None)
    try:
        if thread.kernel_id is None:
            registers = thread.registers()
            if not registers:
                yield f"begins in {thread.begins_in()}"
                return
            unwinder.show(registers)
        else:
            _select_kernel_thread(thread.kernel_id)
        lines = gdb.execute("backtrace", to_string=True).splitlines()
        yield from lines if thread.kernel_id is not None else lines[1:]
    finally:
        unwinder.show(None)
        before.switch()


class _Prefix(gdb.Command):
    """Show user-level threads: gossamer threads, gossamer bt N|all, gossamer thread [N]."""

    def __init__(self) -> None:
        super().__init__("gossamer", gdb.COMMAND_STACK, gdb.COMPLETE_NONE, prefix=True)


class _Threads(gdb.Command):
    """List the user-level threads."""

    def __init__(self) -> None:
        super().__init__("gossamer threads", gdb.COMMAND_STACK, gdb.COMPLETE_NONE)

    def invoke(self, text: str, _from_tty: bool) -> None:
        if text:
            raise gdb.GdbError("gossamer threads takes no argument")
        process = Process()
        now_ns, count = process.now_ns(), 0
        for thread in process.threads():
            count += 1
            print(f'{count:4d}  {thread.address:#x}  "{thread.name}"  {thread.state(now_ns)}')
        print(f"{count} threads, {len(process.workers)} workers")


class _Backtrace(gdb.Command):
    """Show the calls of a user-level thread: gossamer bt N, or of each: gossamer bt all."""

    def __init__(self) -> None:
        super().__init__("gossamer bt", gdb.COMMAND_STACK, gdb.COMPLETE_NONE)

    def invoke(self, text: str, _from_tty: bool) -> None:
        if not text:
            raise gdb.GdbError("gossamer bt: of which thread? A number, an address, a name or all")
        process = Process()
        now_ns = process.now_ns()
        for thread in list(process.threads()) if text == "all" else [process.find(text)]:
            print(f'thread {thread.address:#x} "{thread.name}" {thread.state(now_ns)}')
            for line in _calls(thread):
                print(line)


class _Thread(gdb.Command):
    """Look at a user-level thread: gossamer thread N; without N, go back to the kernel thread."""

    def __init__(self) -> None:
        super().__init__("gossamer thread", gdb.COMMAND_STACK, gdb.COMPLETE_NONE)

    def invoke(self, text: str, _from_tty: bool) -> None:
        unwinder.show(None)
        if not text:
            gdb.execute("frame 0")
            return
        thread = Process().find(text)
        if thread.kernel_id is not None:
            _select_kernel_thread(thread.kernel_id)
        elif registers := thread.registers():
            unwinder.show(registers)
            gdb.newest_frame().older().select()
        else:
            print(f"it has not begun: {thread.begins_in()}")
            return
        gdb.execute("frame")


for command in (_Prefix, _Threads, _Backtrace, _Thread):
    command()
