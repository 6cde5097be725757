"""User-level threads in gdb: in a live process and in a core.

(gdb) source tools/gdb/gossamer.py
(gdb) gossamer threads             number, name, state, what each waits for and for how long
(gdb) gossamer groups              threads with the same state and calls, the largest group first
(gdb) gossamer bt N                its backtrace; N may also be an address, a name, or "all"
(gdb) gossamer thread N            select it: up, down, bt, info locals and print work
(gdb) gossamer thread              back to the kernel thread

Nothing in the process is changed: a thread that is not running is shown by an unwinder which makes
gdb believe that the newest frame of the selected kernel thread was called by the thread's last one.
Of a thread that is evicted from a shared stack, the backtrace is found by frame pointers, and it
cannot be selected. The library's debug information is required.

Threads that `gossamer cc` has compiled have no stack: of those, gossamer bt shows the records of
the calls that wait, with the variables that these hold if the program has debug information.
"""

import itertools
import re
import time
from collections.abc import Iterator

import gdb
import gdb.unwinder

LINE = 64  # the size of control blocks, as in src/thread/stack/stack_class.h
CALLS_MAX = 64

WAITING, LEAVING = 1, 3  # enum claim
AT_OBJECT = 0  # enum waits_at

SAMPLES_MAX = 4  # how many threads of a group are named


class Registers:
    """The registers that are saved on a suspended stack, see src/thread/context/context.h."""

    def __init__(self, sp: int, at: int) -> None:
        """Read the registers saved at sp; `at`: where the contents of that address are now."""
        if gdb.selected_frame().architecture().name().startswith("aarch64"):
            names = ["x29", "x30", *(f"x{n}" for n in range(19, 29))]
            words = _words(at, len(names))
            self.saved = dict(zip(names, words, strict=True))
            self.pc, self.sp = self.saved["x30"], sp + 176
            self.saved |= {"pc": self.pc, "sp": self.sp}
        else:
            names = ["r15", "r14", "r13", "r12", "rbx", "rbp", "rip"]
            words = _words(at + 8, len(names))
            self.saved = dict(zip(names, words, strict=True))
            self.pc, self.sp = self.saved["rip"], sp + 8 + 8 * len(names)
            self.saved["rsp"] = self.sp


def _words(address: int, count: int) -> list[int]:
    memory = gdb.selected_inferior().read_memory(address, 8 * count)
    return list(memory.cast("B").cast("Q"))


def _string(value: gdb.Value) -> str:
    return value.string(errors="replace")


class Process:
    """The runtime of the process."""

    def __init__(self) -> None:
        """Find it through the library's debug information."""
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
        self.running = {int(w["current"]): int(w["tid"]) for w in self.workers}

    def threads(self) -> Iterator["Thread"]:
        """Yield all live threads: those on the runtime's stacks, then those on the program's."""
        for slots in self._classes():
            yield from self._threads_of(slots)
        head = self.runtime["user_stack_threads"]
        link = head["next"]
        offset = int(gdb.parse_and_eval("(long)&((struct user_stack_thread *)0)->extra.link"))
        while int(link) and int(link) != int(head.address):
            yield Thread(self, self._thread_at(int(link) - offset))
            link = link["next"]

    def compiled(self) -> Iterator["CompiledThread"]:
        """Yield all threads of a program of `gossamer cc` (compiler/runtime/threads/threads.c)."""
        symbol = gdb.lookup_global_symbol("gs_cc_slabs")
        if not symbol:
            return
        running = _running_compiled()
        slab = gdb.Value(int(symbol.value())).cast(gdb.lookup_type("struct gs_cc_slab").pointer())
        while int(slab):
            for i in range(int(slab["used"])):
                value = slab["at"][i]
                if int(value["resumable"]["resume"]):
                    yield CompiledThread(value, running.get(int(value.address)))
            slab = slab["next"]

    def all(self) -> Iterator["Thread | CompiledThread"]:
        """Yield the threads of both kinds."""
        yield from self.threads()
        yield from self.compiled()

    def find(self, text: str) -> "Thread | CompiledThread":
        """Return the thread with this number, address or name."""
        for number, thread in enumerate(self.all(), 1):
            if text in (str(number), thread.name) or text == hex(thread.address):
                return thread
        raise gdb.GdbError(f"gossamer: there is no thread {text}: see gossamer threads")

    def now_ns(self) -> int:
        """Return the monotonic clock; in a core, what the workers read last."""
        connection = gdb.selected_inferior().connection
        if connection and connection.type == "native":
            return time.monotonic_ns()
        return max((int(w["now_ns"].dereference()) for w in self.workers), default=0)

    def _classes(self) -> list[gdb.Value]:
        symbol = gdb.lookup_global_symbol("gs_stack_classes")
        if not symbol:
            raise gdb.GdbError("gossamer: this program has no debug information about stacks")
        first, last = symbol.type.range()
        return [symbol.value()[i] for i in range(first, last + 1)]

    def _threads_of(self, slots: gdb.Value) -> Iterator["Thread"]:
        size = ((self.thread_type.sizeof + LINE - 1) // LINE | 1) * LINE
        for i in range(int(slots["used"])):
            value = self._thread_at(int(slots["blocks"]) + i * size)
            if value["is_live"] and not value["is_done"]:
                yield Thread(self, value)

    def _thread_at(self, address: int) -> gdb.Value:
        return gdb.Value(address).cast(self.thread_type.pointer()).dereference()


class Thread:
    """A user thread."""

    def __init__(self, process: Process, value: gdb.Value) -> None:
        """Read its control block."""
        self._process, self._value = process, value
        self.address = int(value.address)
        extra = value["extra"]
        self.name = _string(extra["name"]) if int(extra) else ""
        self.tid = process.running.get(self.address)
        shared = int(gdb.parse_and_eval("CLASS_SHARED"))
        self._is_sharing = int(value["stack_class"]) == shared

    def state(self, now_ns: int) -> str:
        """Describe what it is doing, or what it waits for and for how long."""
        value = self._value
        if self.tid is not None:
            return f"runs in kernel thread {self.tid}"
        if self.what():
            place = ", evicted from its stack" if self.is_evicted() else ""
            waited = f"has waited {self.waited_ms(now_ns):.3f} ms"
            return f"{waited} for {self.what()}{self._where()}{place}"
        return "is ready" if value["worker"] else "has not started"

    def what(self) -> str:
        """Return what it waits for; empty if it does not wait."""
        is_waiting = self.tid is None and int(self._value["claim"]) in (WAITING, LEAVING)
        return _string(self._value["wait_kind"]["name"]) if is_waiting else ""

    def waited_ms(self, now_ns: int) -> float:
        """Return for how long it has waited, if it waits."""
        return max(now_ns - int(self._value["wait_start_ns"]), 0) / 1e6

    def _where(self) -> str:
        """Name the object at which it waits: a number, or an address."""
        at = int(self._value["wait_object"])
        if int(self._value["wait_kind"]["at"]) != AT_OBJECT:
            return f" at {at}"
        return f" at {at:#x}" if at else ""

    def registers(self) -> Registers | None:
        """Return the registers with which it resumes; None: it has not started."""
        sp = int(self._value["sp"])
        if not sp:
            return None
        registers = Registers(sp, sp + self._offset())
        start = gdb.lookup_minimal_symbol("gs_context_start") if _has_minimal() else None
        is_new = start and int(start.value().address) == registers.pc
        return None if is_new or _symbol_at(registers.pc) == "gs_context_start" else registers

    def is_evicted(self) -> bool:
        """Return whether it is evicted from its stack, see src/thread/stack/shared_stack.h."""
        return self._is_sharing and bool(int(self._value["saved"]))

    def _offset(self) -> int:
        """Return how far the contents of its stack are from where they belong."""
        return int(self._value["saved"]) - int(self._value["sp"]) if self.is_evicted() else 0

    def calls_by_frame_pointers(self, registers: Registers) -> list[int]:
        """Return the addresses of its calls, the innermost first."""
        calls, top = [registers.pc], int(self._value["stack_top"])
        frame = registers.saved.get("rbp", registers.saved.get("x29", 0))
        while registers.sp <= frame <= top - 16 and frame % 8 == 0 and len(calls) < CALLS_MAX:
            next_frame, pc = _words(frame + self._offset(), 2)
            if not pc:
                break
            calls.append(pc)
            if next_frame <= frame:
                break
            frame = next_frame
        return calls

    def entry_function(self) -> str:
        """Return the function that it is going to call."""
        return str(self._value["fn"])


class CompiledThread:
    """A thread that `gossamer cc` has compiled."""

    def __init__(self, value: gdb.Value, tid: int | None) -> None:
        """Read it; tid: of the kernel thread that runs it."""
        self._value, self.tid = value, tid
        self.address = int(value.address)
        self.name = _string(value["extra"]["name"]) if int(value["extra"]) else ""
        self._record = int(value["record"])

    def what(self) -> str:
        """Return the call that it waits in; empty if that is not known."""
        call = self._site(self._record)["callee"] if self._record and not self.tid else None
        return _string(call) if call and int(call) else ""

    def state(self, _now_ns: int) -> str:
        """Describe what it waits for."""
        value, fd = self._value, int(self._value["resumable"]["fd"])
        if self.tid is not None:
            return f"compiled, runs in kernel thread {self.tid}"
        if int(value["stack"]):
            return f"compiled, on the stack of thread {int(value['stack']):#x}"
        if not self._record:
            return "compiled, is ready" if value["has_started"] else "compiled, has not started"
        at = f" at descriptor {fd}" if fd >= 0 else ""
        return f"compiled, waits for {self.what() or 'a call'}{at}"

    def waited_ms(self, _now_ns: int) -> float:
        """Return 0: it does not remember when it began to wait."""
        return 0.0

    def calls(self) -> Iterator[str]:
        """Yield lines: the calls that wait, the innermost first, each with its variables."""
        at, level = self._record, 0
        if self.tid:
            yield f"runs in kernel thread {self.tid}; the calls around that:"
        if at and self.what():
            yield f"#{level}  {self.what()}"
            level += 1
        while at:
            site = self._site(at)
            place = f" at {_string(site['place'])}" if int(site["place"]) else ""
            yield f"#{level}  {_string(site['function'])} (){place}"
            yield from self._locals(at, site["locals"])
            at, level = int(self._record_at(at)["caller"]), level + 1

    def _record_at(self, address: int) -> gdb.Value:
        kind = gdb.lookup_type("struct gs_cc_record").pointer()
        return gdb.Value(address).cast(kind).dereference()

    def _site(self, record: int) -> gdb.Value:
        return self._record_at(record)["site"].dereference()

    def _locals(self, record: int, text: gdb.Value) -> Iterator[str]:
        """Yield the variables of a record, see compiler/plugin/convert/frame_locals.h."""
        for line in _string(text).splitlines() if int(text) else []:
            name, kind, offset, *inner = line.split("\t")
            at = record + int(offset)
            if inner:
                at = _words(at, 1)[0] + int(inner[0])
            try:
                value = gdb.Value(at).cast(_type(kind).pointer()).dereference()
                shown = value.format_string(max_elements=64)
            except gdb.error as error:
                shown = f"<{error}>"
            yield f"        {name} = {shown}"


def _running_compiled() -> dict[int, int]:
    """Return which compiled threads run, with the numbers of their kernel threads."""
    before, running = gdb.selected_thread(), {}
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        try:
            running[int(gdb.parse_and_eval("gs_cc_state.self"))] = thread.ptid[1] or thread.ptid[2]
        except gdb.error:  # its thread-local variables cannot be read
            continue
    before.switch()
    return running


def _type(text: str) -> gdb.Type:
    """Return the type of this name, such as "struct client *[4]"."""
    text = text.strip()
    if text.endswith("*"):
        return _type(text[:-1]).pointer()
    if sizes := re.search(r"(\[\d+\])+$", text):
        kind = _type(text[: sizes.start()])
        for size in reversed(re.findall(r"\d+", sizes[0])):
            kind = kind.array(int(size) - 1)
        return kind
    return gdb.lookup_type(text)


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
    """Makes the newest frame of a kernel thread appear to be called by a user thread's."""

    def __init__(self) -> None:
        """Show no thread."""
        super().__init__("gossamer")
        self._registers: Registers | None = None
        self._ptid: tuple[int, int, int] | None = None

    def show(self, registers: Registers | None) -> None:
        """Show a thread in the selected kernel thread; None: show none."""
        self._registers = registers
        self._ptid = gdb.selected_thread().ptid if registers else None
        gdb.invalidate_cached_frames()

    def __call__(self, pending_frame: gdb.PendingFrame) -> gdb.UnwindInfo | None:
        """Unwind a frame for gdb; None: leave it to another unwinder."""
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


def _select_kernel_thread(tid: int) -> None:
    for thread in gdb.selected_inferior().threads():
        if tid in thread.ptid[1:]:
            thread.switch()
            return
    raise gdb.GdbError(f"gossamer: gdb knows of no kernel thread {tid}")


def _describe(pc: int) -> str:
    at = gdb.find_pc_line(pc - 1)
    line = f" at {at.symtab.filename}:{at.line}" if at.symtab else ""
    return f"{pc:#x} in {_symbol_at(pc - 1) or '??'} (){line}"


def _calls(thread: Thread | CompiledThread, options: str = "") -> Iterator[str]:
    """Yield the lines of a backtrace of the thread; keep the selected kernel thread."""
    if isinstance(thread, CompiledThread):
        yield from thread.calls()
        return
    before = gdb.selected_thread()
    unwinder.show(None)
    try:
        if thread.tid is None:
            registers = thread.registers()
            if not registers:
                yield f"starts in {thread.entry_function()}"
                return
            if thread.is_evicted():
                calls = enumerate(thread.calls_by_frame_pointers(registers))
                yield from (f"#{level}  {_describe(pc)}" for level, pc in calls)
                return
            unwinder.show(registers)
        else:
            _select_kernel_thread(thread.tid)
        lines = gdb.execute(f"backtrace {options}", to_string=True).splitlines()
        yield from lines if thread.tid is not None else lines[1:]
    finally:
        unwinder.show(None)
        before.switch()


class _Prefix(gdb.Command):
    """User-level threads: gossamer threads, groups, bt N|all, thread [N]."""

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
        for thread in process.all():
            count += 1
            print(f'{count:4d}  {thread.address:#x}  "{thread.name}"  {thread.state(now_ns)}')
        print(f"{count} threads, {len(process.workers)} workers")


class _Groups(gdb.Command):
    """List the user-level threads by state and calls, the largest group first."""

    def __init__(self) -> None:
        super().__init__("gossamer groups", gdb.COMMAND_STACK, gdb.COMPLETE_NONE)

    def invoke(self, text: str, _from_tty: bool) -> None:
        if text:
            raise gdb.GdbError("gossamer groups takes no argument")
        process = Process()
        now_ns = process.now_ns()
        groups: dict[tuple[str, ...], list[Thread | CompiledThread]] = {}
        shown: dict[tuple[str, ...], list[str]] = {}
        for thread in process.all():
            state = f"waiting for {thread.what()}" if thread.what() else thread.state(now_ns)
            calls = list(_calls(thread, "-frame-arguments none"))
            key = (state, *_program_calls(calls))
            groups.setdefault(key, []).append(thread)
            shown.setdefault(key, calls)
        for key, threads in sorted(groups.items(), key=lambda item: -len(item[1])):
            print(f"{len(threads)} threads: {key[0]}{_waits(threads, now_ns)}")
            print("  " + ", ".join(f'"{t.name}" {t.address:#x}' for t in threads[:SAMPLES_MAX]))
            print("\n".join(shown[key]))


def _program_calls(calls: list[str]) -> list[str]:
    """Return the calls without those by which the library waits: it has several ways.

    Of each, what does not depend on how many precede it: function and line.
    """
    rest = itertools.dropwhile(lambda call: re.search(r"src/thread/[\w./]+:\d+$", call), calls)
    return [
        re.sub(r"^#\d+\s+(0x[0-9a-f]+ in )?", "", call) for call in rest if call.startswith("#")
    ]


def _waits(threads: list[Thread | CompiledThread], now_ns: int) -> str:
    """Tell how long these threads of one group have waited, if they wait."""
    waited = sorted(thread.waited_ms(now_ns) for thread in threads)
    return f", {waited[0]:.3f} to {waited[-1]:.3f} ms" if threads[0].what() else ""


class _Backtrace(gdb.Command):
    """Show the backtrace of a user-level thread: gossamer bt N, or of each: gossamer bt all."""

    def __init__(self) -> None:
        super().__init__("gossamer bt", gdb.COMMAND_STACK, gdb.COMPLETE_NONE)

    def invoke(self, text: str, _from_tty: bool) -> None:
        if not text:
            raise gdb.GdbError("gossamer bt: which thread? A number, an address, a name or all")
        process = Process()
        now_ns = process.now_ns()
        for thread in list(process.all()) if text == "all" else [process.find(text)]:
            print(f'thread {thread.address:#x} "{thread.name}" {thread.state(now_ns)}')
            for line in _calls(thread):
                print(line)


class _Thread(gdb.Command):
    """Select a user-level thread: gossamer thread N; without N, return to the kernel thread."""

    def __init__(self) -> None:
        super().__init__("gossamer thread", gdb.COMMAND_STACK, gdb.COMPLETE_NONE)

    def invoke(self, text: str, _from_tty: bool) -> None:
        unwinder.show(None)
        if not text:
            gdb.execute("frame 0")
            return
        thread = Process().find(text)
        if isinstance(thread, CompiledThread):
            print("a compiled thread has no stack: see gossamer bt")
            return
        if thread.tid is not None:
            _select_kernel_thread(thread.tid)
        elif thread.is_evicted():
            print("it is evicted from its stack while it waits: see gossamer bt")
            return
        elif registers := thread.registers():
            unwinder.show(registers)
            gdb.newest_frame().older().select()
        else:
            print(f"it has not started: {thread.entry_function()}")
            return
        gdb.execute("frame")


def _pass_signals(_event: object = None) -> None:
    """Do not stop at the signals by which the library of gossamer run gets system calls."""
    if any("libgossamer_run.so" in (file.filename or "") for file in gdb.objfiles()):
        gdb.execute("handle SIGSYS SIG64 nostop noprint pass", to_string=True)


gdb.events.new_objfile.connect(_pass_signals)
_pass_signals()

for command in (_Prefix, _Threads, _Groups, _Backtrace, _Thread):
    command()
