"""Write a random program of threads whose output does not depend on how they run.

    generate.py SEED > program.c

Functions compute with variables of many kinds, pass pointers into their frames, recurse, call
through pointers, with a variable number of arguments, and back through qsort and longjmp, and wait
meanwhile: for locks, conditions, pipes, semaphores, barriers, once, time and other threads.
"""

import random
import sys
from dataclasses import dataclass, field
from typing import ClassVar

MAX_COST = 4000  # statements that one call of a function executes, about
INTEGERS = ("u32", "u64", "signed char", "short", "unsigned char", "int", "_Bool")
PRELUDE = r"""
#include <alloca.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef uint32_t u32;
typedef uint64_t u64;
struct pair { u32 a; unsigned char b; };
struct big { u64 a[3]; u32 b; short c; };
struct bits { unsigned a : 5, b : 11; int c : 7; };
typedef u64 function(unsigned depth, u32 x, u64 y, u64 *out);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_key_t key;
static u64 shared, under_write_lock;
static _Thread_local u64 own = 7;
static _Thread_local int pipes[2];
static _Thread_local sem_t *semaphore;

static u64 mix(u64 h, u64 x) { h ^= x; h *= 0x9e3779b97f4a7c15u; return h ^ h >> 29; }

/* A thread that answers: a request waits in its mailbox, and then for the answer. */
static struct { pthread_mutex_t lock; pthread_cond_t full, done; int state; u64 value; } server = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 };
static void *serve(void *unused)
{
    pthread_mutex_lock(&server.lock);
    for (;;) {
        while (server.state != 1 && server.state != 3)
            pthread_cond_wait(&server.full, &server.lock);
        if (server.state == 3)
            break;
        server.value = mix(server.value, 5);
        server.state = 2;
        pthread_cond_broadcast(&server.done);
    }
    pthread_mutex_unlock(&server.lock);
    return unused;
}
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static u64 ask(u64 value)
{
    pthread_mutex_lock(&turn);
    pthread_mutex_lock(&server.lock);
    server.value = value;
    server.state = 1;
    pthread_cond_signal(&server.full);
    while (server.state != 2)
        pthread_cond_wait(&server.done, &server.lock);
    value = server.value;
    server.state = 0;
    pthread_mutex_unlock(&server.lock);
    pthread_mutex_unlock(&turn);
    return value;
}
static u64 echo(u64 value)
{
    u64 back = 0;
    char *at = (char *)&back;
    if (write(pipes[1], &value, 3) != 3 || write(pipes[1], (char *)&value + 3, 5) != 5)
        abort();
    for (size_t n = 0; n < sizeof back;) {
        ssize_t got = read(pipes[0], at + n, sizeof back - n);
        if (got <= 0)
            abort();
        n += (size_t)got;
    }
    return back;
}
static u64 with_lock(u64 value)
{
    pthread_mutex_lock(&lock);
    shared += value;
    sched_yield();
    pthread_mutex_unlock(&lock);
    pthread_rwlock_wrlock(&rwlock);
    under_write_lock ^= value;
    pthread_rwlock_unlock(&rwlock);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&recursive);
    sched_yield();
    pthread_mutex_unlock(&recursive);
    pthread_mutex_unlock(&recursive);
    return value + 1;
}
static u64 by_semaphore(u64 value)
{
    sem_post(semaphore);
    sched_yield();
    sem_wait(semaphore);
    return value ^ 3;
}
static u64 by_errno(u64 value)
{
    errno = (int)(value & 63);
    sched_yield();
    value = (value << 7) + (u64)errno;
    errno = 0;
    return value;
}
static u64 late(u64 value)
{
    struct pollfd one = {.fd = pipes[0], .events = POLLIN};
    struct timespec little = {0, 1000};
    if (poll(&one, 1, 0) || nanosleep(&little, NULL))
        abort();
    return value * 3 + (u64)one.revents;
}
static u64 by_key(u64 value)
{
    void *before = pthread_getspecific(key);
    pthread_setspecific(key, (void *)(uintptr_t)value);
    sched_yield();
    value = (u64)(uintptr_t)pthread_getspecific(key);
    pthread_setspecific(key, before);
    return value;
}
static void add_one(void *value) { ++*(u64 *)value; sched_yield(); }
static u64 by_cleanup(u64 value)
{
    pthread_cleanup_push(add_one, &value);
    sched_yield();
    pthread_cleanup_pop(1);
    return value;
}
static int compare(const void *one, const void *other)
{
    u32 a = *(const u32 *)one, b = *(const u32 *)other;
    if ((a ^ b) & 1)
        sched_yield();
    return a < b ? -1 : a > b;
}
static u64 sum(int count, ...)
{
    va_list list;
    u64 h = 1;
    va_start(list, count);
    for (int i = 0; i < count; i++) {
        if (i & 1)
            h = mix(h, (u64)va_arg(list, double));
        else
            h = mix(h, va_arg(list, u64));
        sched_yield();
    }
    va_end(list);
    return h;
}
static void *nested(void *argument)
{
    u64 *box = argument;
    own += *box;
    sched_yield();
    *box = mix(*box, own);
    if (*box & 1)
        pthread_exit((void *)(uintptr_t)(*box & 0xffff));
    return (void *)(uintptr_t)(*box >> 48);
}
static u64 by_thread(u64 value)
{
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, nested, &value) || pthread_join(thread, &result))
        abort();
    return value + (u64)(uintptr_t)result;
}
static struct pair pair_of(struct pair one, u32 x)
{
    sched_yield();
    return (struct pair){one.b + x, (unsigned char)(one.a ^ x)};
}
static struct big big_of(struct big one, u32 x)
{
    one.a[x % 3] += x;
    sched_yield();
    one.b ^= x;
    one.c = (short)(one.c + 1);
    return one;
}
static double real(double one, float other) { sched_yield(); return one * 2 + other; }
static long double longer(long double one, u32 x) { sched_yield(); return one + x % 1000; }
static __int128 wide(__int128 one, u64 x) { sched_yield(); return one * 3 + x; }
"""

MAIN = r"""
static pthread_barrier_t barrier;
static void *body(void *argument)
{
    u64 number = *(u64 *)argument, h = number, out = 0;
    sem_t mine;
    if (pipe(pipes) || sem_init(&mine, 0, 0))
        abort();
    semaphore = &mine;
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        h = mix(h, table[(i + number) % FUNCTIONS](number & 3, (u32)h, h ^ number, &out));
        h = mix(h, out);
    }
    pthread_barrier_wait(&barrier);
    h = mix(h, own);
    close(pipes[0]);
    close(pipes[1]);
    sem_destroy(&mine);
    *(u64 *)argument = h;
    return argument;
}
int main(void)
{
    enum { THREADS = 5 };
    pthread_t threads[THREADS], answering;
    u64 numbers[THREADS];
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &attributes);
    pthread_key_create(&key, NULL);
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_create(&answering, NULL, serve, NULL);
    for (u64 i = 0; i < THREADS; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, body, &numbers[i]))
            abort();
    }
    for (u64 i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        printf("%llu %016llx %d\n", (unsigned long long)i, (unsigned long long)numbers[i],
               result == &numbers[i]);
    }
    pthread_mutex_lock(&server.lock);
    server.state = 3;
    pthread_cond_signal(&server.full);
    pthread_mutex_unlock(&server.lock);
    pthread_join(answering, NULL);
    printf("%016llx %016llx\n", (unsigned long long)shared, (unsigned long long)under_write_lock);
    return (int)(shared & 31);
}
"""


@dataclass
class Function:
    """A function of the generated program: its variables, and what a call of it costs."""

    number: int
    cost: int = 0
    integers: list[str] = field(default_factory=list)
    arrays: dict[str, int] = field(default_factory=dict)
    pointers: list[str] = field(default_factory=list)
    declarations: list[str] = field(default_factory=list)


class Generator:
    """Writes one program."""

    WAITS: ClassVar = (
        "ask",
        "echo",
        "with_lock",
        "by_semaphore",
        "by_errno",
        "late",
        "by_key",
        "by_cleanup",
        "by_thread",
    )

    def __init__(self, seed: int) -> None:
        """Begin a program; the same seed makes the same one."""
        self.random = random.Random(seed)
        self.done: list[Function] = []
        self.now = Function(0)
        self.names = 0

    def chance(self, percent: int) -> bool:
        """Whether something of this probability happens."""
        return self.random.randrange(100) < percent

    def name(self) -> str:
        """Return a new name."""
        self.names += 1
        return f"v{self.names}"

    # ---- Expressions ----

    def leaf(self) -> str:
        """Return a variable, an element or a number."""
        kind = self.random.randrange(10)
        if kind < 5 and self.now.integers:
            return self.random.choice(self.now.integers)
        if kind < 6 and self.now.arrays:
            name, size = self.random.choice(list(self.now.arrays.items()))
            return f"{name}[{self.random.choice(self.now.integers)} & {size - 1}]"
        if kind < 7 and self.now.pointers:
            return f"*{self.random.choice(self.now.pointers)}"
        if kind < 8:
            return self.random.choice(("x", "(u32)y", "own", "*out"))
        return f"{self.random.getrandbits(self.random.choice((3, 8, 31)))}u"

    def expression(self, depth: int = 2) -> str:
        """Return an expression of integers, unsigned so that it is defined."""
        if depth == 0 or self.chance(20):
            return f"(u64){self.leaf()}"
        one, other = self.expression(depth - 1), self.expression(depth - 1)
        kind = self.random.randrange(12)
        if kind < 6:
            return f"({one} {self.random.choice('+-*^|&')} {other})"
        if kind < 8:
            return f"({one} {self.random.choice(('<<', '>>'))} ({other} & 31))"
        if kind < 11:
            return self.rare(kind, one, other)
        return self.wait(one) if self.afford(40) else one

    def rare(self, kind: int, one: str, other: str) -> str:
        """Return an expression of a rare kind."""
        if kind < 9:
            return f"({one} / (({other} & 15) + 1))"
        if kind < 10:
            return f"({one} {self.random.choice(('<', '==', '>='))} {other})"
        return f"({one} & 1 ? {other} : {self.expression(0)})"

    def afford(self, cost: int) -> bool:
        """Whether the function may execute this many statements more; if so, it does."""
        if self.now.cost + cost * self.turns > MAX_COST:
            return False
        self.now.cost += cost * self.turns
        return True

    def wait(self, value: str) -> str:
        """Return a call that waits."""
        return f"{self.random.choice(self.WAITS)}({value})"

    # ---- Statements ----

    def target(self) -> str:
        """Return what can be assigned to."""
        kind = self.random.randrange(10)
        if kind < 2 and self.now.arrays:
            name, size = self.random.choice(list(self.now.arrays.items()))
            return f"{name}[{self.expression(1)} & {size - 1}]"
        if kind < 4 and self.now.pointers:
            return f"*{self.random.choice(self.now.pointers)}"
        return self.random.choice((*self.now.integers, "own", "*out", "x", "y"))

    def call(self) -> str:
        """Return a call of a function that was generated before."""
        affordable = [f for f in self.done if f.cost * 4 * self.turns + self.now.cost <= MAX_COST]
        if not affordable:
            return self.expression(1)
        callee = self.random.choice(affordable)
        self.afford(callee.cost * 4)
        name = f"f{callee.number}"
        if self.chance(30):
            name = f"table[{callee.number} + (unsigned)(x & 0)]"
        out = "out"
        if self.chance(60) and self.now.pointers:
            out = f"&{self.random.choice([p for p in self.now.integers if p.startswith('w')])}"
        return (
            f"{name}({self.random.randrange(4)}, {self.expression(1)}, {self.expression(1)}, {out})"
        )

    def fill(self, name: str, size: int) -> str:
        """Return a loop that sets all elements of an array."""
        value = f"(u32)({self.expression(1)} * (i + 1))"
        return f"for (unsigned i = 0; i < {size}; i++) {name}[i] = {value};"

    def special(self) -> str:
        """Return a statement of a rare kind."""
        v, e, t = self.name(), self.expression, self.target
        size = self.random.choice((4, 8, 32))
        lines = {
            "qsort": f"u32 {v}[{size}]; {self.fill(v, size)}"
            f" qsort({v}, {size}, sizeof *{v}, compare);"
            f" {t()} = {v}[{e(1)} & {size - 1}];",
            "sum": f"{t()} = sum(4, {e()}, 2.5, {e()}, (double)(int)({e(1)} & 255));",
            "pair": f"struct pair {v} = {{(u32){e(1)}, 3}}; {v} = pair_of({v}, (u32){e(1)});"
            f" {t()} = {v}.a + {v}.b;",
            "big": f"struct big {v} = {{{{{e(1)}, 2, 3}}, 4, 5}}; {v} = big_of({v}, (u32){e(1)});"
            f" {t()} = {v}.a[{e(1)} % 3] + {v}.b + (u64){v}.c;",
            "bits": f"struct bits {v} = {{{e(1)} & 31, {e(1)} & 2047, 9}};"
            f" {t()} = {self.wait(e(1))};"
            f" {v}.a += 3; {t()} = {v}.a + {v}.b + (u64){v}.c;",
            "jump": f"jmp_buf {v}; volatile u64 w{v} = {e(1)}; if (!setjmp({v})) {{ w{v} += 5;"
            f" w{v} ^= {self.wait(e(1))}; if (w{v} & 1) longjmp({v}, 1); }} {t()} = w{v};",
            "real": f"double {v} = (double)(u32)({e(1)} & 1023);"
            f" {v} = real({v}, 1.5f) + real(2, 3);"
            f" {t()} = (u64){v};",
            "longer": f"long double {v} = (u32){e(1)}; {v} = longer({v}, (u32){e(1)});"
            f" {t()} = (u64){v};",
            "wide": f"__int128 {v} = {e(1)}; {v} = wide({v}, {e(1)}); {t()} = (u64)({v} >> 3);",
            "alloca": f"u32 *{v} = alloca({size} * sizeof *{v}); {self.fill(v, size)}"
            f" {t()} = {self.wait(e(1))}; {t()} = {v}[{e(1)} & {size - 1}];",
            "vla": f"unsigned n{v} = ((unsigned){e(1)} & 7) + 8; u32 {v}[n{v}]; {self.fill(v, 8)}"
            f" {t()} = {self.wait(e(1))}; {t()} = {v}[{e(1)} & 7];",
            "goto": f"unsigned n{v} = 0; again{v}: {t()} = {self.wait(e(1))};"
            f" if (n{v}++ < 2) goto again{v};",
            "copy": f"u32 {v}[{size}]; {self.fill(v, size)} {t()} = {self.wait(e(1))};"
            f" memmove({v} + 1, {v}, {size - 1} * sizeof *{v}); {t()} = {v}[{e(1)} & {size - 1}];",
        }
        kind = self.random.choice(list(lines))
        return f"{{ {lines[kind]} }}" if self.afford(150) else f"{t()} = {e()};"

    def block(self, depth: int) -> str:
        """Return some statements."""
        count = self.random.randrange(1, 5)
        return "\n".join(self.statement(depth) for _ in range(count))

    def loop(self, depth: int) -> str:
        """Return a loop, with a way out of it."""
        i, turns = self.name(), self.random.randrange(2, 5)
        self.turns *= turns
        body = self.block(depth - 1)
        leave = f"if (({self.expression(1)} & 7) == 3) {self.random.choice(('break', 'continue'))};"
        self.turns //= turns
        body += f"\n{leave}\n{self.target()} += {i};"
        return f"for (unsigned {i} = 0; {i} < {turns}; {i}++) {{\n{body}\n}}"

    def statement(self, depth: int) -> str:
        """Return a statement with at most so many levels in it."""
        self.afford(1)
        kind = self.random.randrange(20)
        if depth and kind < 7:
            return self.nested(kind, depth)
        if kind < 10:
            return f"{self.target()} = {self.call()};"
        if kind < 12:
            return self.special()
        if kind < 14:
            return f"{self.target()} += {self.wait(self.expression(1)) if self.afford(40) else 1};"
        return f"{self.target()} {self.random.choice(('=', '^=', '+='))} {self.expression()};"

    def nested(self, kind: int, depth: int) -> str:
        """Return a statement with others in it."""
        if kind < 3:
            return self.loop(depth)
        if kind < 6:
            otherwise = f" else {{\n{self.block(depth - 1)}\n}}" if self.chance(50) else ""
            return f"if ({self.expression(1)} & 1) {{\n{self.block(depth - 1)}\n}}{otherwise}"
        cases = "\n".join(
            f"case {i}: {self.statement(depth - 1)} {'break;' if self.chance(70) else ''}"
            for i in range(3)
        )
        default = f"default: {self.statement(0)}"
        return f"switch ({self.expression(1)} & 3) {{\n{cases}\n{default}\n}}"

    # ---- Functions ----

    def declare(self) -> None:
        """Declare the variables of a function; those of w may be pointed to."""
        now = self.now
        for _ in range(self.random.randrange(2, 7)):
            name, kind = self.name(), self.random.choice(INTEGERS)
            now.declarations.append(f"{kind} {name} = ({kind})({self.random.getrandbits(8)} + x);")
            now.integers.append(name)
        for _ in range(self.random.randrange(3)):
            name = "w" + self.name()
            now.declarations.append(f"u64 {name} = y, *p{name} = &{name};")
            now.integers.append(name)
            now.pointers.append(f"p{name}")
        for _ in range(self.random.randrange(3)):
            name, size = self.name(), self.random.choice((2, 4, 16, 64))
            now.declarations.append(f"u32 {name}[{size}] = {{1, (u32)x}};")
            now.arrays[name] = size

    def function(self, number: int) -> str:
        """Return a function."""
        self.now, self.turns = Function(number), 1
        self.declare()
        body = self.block(2) + "\n" + self.block(3)
        recursion = ""
        if self.chance(40):
            recursion = f"if (depth) y += f{number}(depth - 1, x + 1, y, out);\n"
        end = "".join(f"h = mix(h, (u64){name});\n" for name in self.now.integers)
        end += "".join(f"h = mix(h, {name}[1]);\n" for name in self.now.arrays)
        end += "".join(f"h = mix(h, *{name});\n" for name in self.now.pointers)
        self.now.cost += 10
        self.done.append(self.now)
        declarations = "\n".join(self.now.declarations)
        return (
            f"static u64 f{number}(unsigned depth, u32 x, u64 y, u64 *out)\n{{\n{declarations}\n"
            f"u64 h = depth;\n{body}\n{recursion}{end}return h;\n}}\n"
        )

    def program(self) -> str:
        """Return the program."""
        count = self.random.randrange(4, 9)
        functions = [self.function(i) for i in range(count)]
        names = ", ".join(f"f{i}" for i in range(count))
        table = f"enum {{ FUNCTIONS = {count} }};\nstatic function {names};\n"
        table += f"static function *volatile table[] = {{{names}}};\n"
        return PRELUDE + table + "\n".join(functions) + MAIN


if __name__ == "__main__":
    sys.stdout.write(Generator(int(sys.argv[1])).program())
