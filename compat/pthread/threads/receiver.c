/* The kernel thread that was the program's first: it receives signals of the process, and looks
 * every few milliseconds whether a task computes for long.
 *
 * It waits in ppoll, with the mask that shall hold. A change of what all tasks block is requested
 * by a number; it is in force when that number is acknowledged, since outside of ppoll the receiver
 * blocks everything. */
#include "compat/pthread/start/dump.h"
#include "compat/pthread/threads/hand_over.h"
#include "compat/pthread/threads/task.h"
#include "src/base/chaos.h"

#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#define TICK_NS (5 * GS_MILLISECOND)
#define SHORT_TICK_NS GS_MILLISECOND /* while something must not last longer */
#define IDLE_TICKS 4u
#define OBSERVED 1024u

static atomic_uint requested, acknowledged, waiting;
static atomic_int tid;
static struct {
    unsigned switches;
    unsigned ticks;
    unsigned short_switches, short_ticks;
    struct observed_call call;
    unsigned holds;
} observed[OBSERVED];
static uint64_t next_tick_ns;
static bool is_any_due;

void gs_receiver_wake(void)
{
    if (atomic_exchange(&gs_run.is_ticker_asleep, false))
        gs_kick(atomic_load(&tid));
}

void gs_receiver_update(bool is_synchronous)
{
    int receiver = atomic_load(&tid);
    if (!receiver)
        return;
    /* A request that is not acknowledged has kicked it, or is about to. */
    unsigned before = atomic_fetch_add(&requested, 1), number = before + 1;
    if (before == atomic_load(&acknowledged))
        gs_kick(receiver);
    if (!is_synchronous || gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0) == receiver)
        return;
    atomic_fetch_add(&waiting, 1);
    unsigned seen;
    while ((int)((seen = atomic_load(&acknowledged)) - number) < 0)
        gs_syscall(SYS_futex, (long)&acknowledged, FUTEX_WAIT_PRIVATE, (long)seen, 0, 0, 0);
    atomic_fetch_sub(&waiting, 1);
}

static void acknowledge(unsigned number)
{
    atomic_store(&acknowledged, number);
    if (atomic_load(&waiting))
        gs_syscall(SYS_futex, (long)&acknowledged, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
}

static bool has_next(unsigned i)
{
    return i <= gs_run.workers + GS_EXTRA_WORKERS && i < OBSERVED;
}

static void end_turn(struct carrier *carrier)
{
    GS_COUNT(preemptions);
    atomic_store(&carrier->must_switch, true);
    gs_kick(carrier->tid);
}

/* The same after two short ticks, if its task is known to compute. Returns whether there is one. */
static bool preempt_early(unsigned i, struct carrier *carrier)
{
    if (!carrier->selector || !atomic_load_explicit(&carrier->has_short_turn, memory_order_relaxed))
        return false;
    unsigned switches = atomic_load_explicit(&carrier->switches, memory_order_relaxed);
    bool is_same = switches == observed[i].short_switches;
    observed[i].short_switches = switches;
    observed[i].short_ticks = is_same ? observed[i].short_ticks + 1 : 0;
    if (observed[i].short_ticks >= 2) {
        observed[i].short_ticks = 0;
        GS_COUNT(short_turns);
        end_turn(carrier);
    }
    return true;
}

/* Ask each worker that has run the same task for two ticks to switch. Returns whether any worker is
 * in the program. */
static bool preempt(void)
{
    bool is_any_busy = false;
    for (unsigned i = 0; has_next(i); i++) {
        struct carrier *carrier = gs_carrier_at(i);
        if (!carrier || !carrier->selector)
            continue;
        unsigned switches = atomic_load_explicit(&carrier->switches, memory_order_relaxed);
        bool is_same = switches == observed[i].switches;
        is_any_busy = true;
        observed[i].switches = switches;
        observed[i].ticks = is_same ? observed[i].ticks + 1 : 0;
        if (observed[i].ticks < 2)
            continue;
        observed[i].ticks = 0;
        end_turn(carrier);
    }
    return is_any_busy;
}

/* Returns whether any worker is in a call that may wait, holds wake-ups, or has a short turn. */
static bool hand_over(uint64_t now_ns)
{
    bool is_any = false;
    for (unsigned i = 0; has_next(i); i++) {
        struct carrier *carrier = gs_carrier_at(i);
        if (!carrier)
            continue;
        is_any |= gs_hand_over_tick(carrier, &observed[i].call, now_ns);
        is_any |= gs_wakeups_tick(carrier, &observed[i].holds);
        is_any |= preempt_early(i, carrier);
    }
    return is_any;
}

/* The receiver was woken, maybe by a call that has started. */
static void look_at_calls(unsigned *idle_ticks)
{
    is_any_due = hand_over(gs_clock_now());
    *idle_ticks = 0;
}

/* Returns whether any worker is busy. */
static bool tick(void)
{
    uint64_t now_ns = gs_clock_now();
    bool is_busy = is_any_due = hand_over(now_ns);
    if (now_ns < next_tick_ns)
        return true;
    next_tick_ns = now_ns + TICK_NS;
    is_busy |= preempt();
    is_busy |= gs_dump_tick(true);
    return is_busy;
}

static void stay_awake(unsigned *idle_ticks)
{
    atomic_store(&gs_run.is_ticker_asleep, false);
    *idle_ticks = 0;
}

/* Sequentially consistent with try_leave: this stores the flag, and looks at the selectors at the
 * next tick, before it sleeps; a task that leaves stores its selector and then reads the flag. */
static void prepare_sleep(unsigned *idle_ticks)
{
    if (tick()) {
        stay_awake(idle_ticks);
        return;
    }
    ++*idle_ticks;
    if (*idle_ticks < IDLE_TICKS)
        return;
    bool was_asleep = atomic_exchange(&gs_run.is_ticker_asleep, true);
    if (!was_asleep)
        *idle_ticks = IDLE_TICKS - 1;
}

_Noreturn void gs_receiver_main(void *unused)
{
    unsigned idle_ticks = 0;
    const stack_t none = {.ss_flags = SS_DISABLE}; /* that of the first thread, which uses it */
    gs_syscall(SYS_sigaltstack, (long)&none, 0, 0, 0, 0, 0);
    (void)unused;
    for (;;) {
        const struct timespec pause = {.tv_nsec = is_any_due ? SHORT_TICK_NS : TICK_NS};
        unsigned number = atomic_load(&requested);
        /* 32: of the C library's timers, whose thread waits for it. */
        gs_signals mask = (gs_blocked_by_all() & ~gs_signals_reserved()) | GS_SIGNAL(32);
        gs_chaos(CHAOS_PUBLISH);
        acknowledge(number);
        gs_chaos(CHAOS_CALL);
        /* Who has requested more before that was acknowledged does not kick. */
        if (atomic_load(&requested) != number)
            continue;
        bool sleeps = idle_ticks >= IDLE_TICKS;
        long result =
            gs_syscall(SYS_ppoll, 0, 0, sleeps ? 0 : (long)&pause, (long)&mask, sizeof mask, 0);
        if (result == 0)
            prepare_sleep(&idle_ticks);
        else if (gs_dump_tick(false))
            stay_awake(&idle_ticks);
        else if (!atomic_load(&gs_run.is_ticker_asleep))
            look_at_calls(&idle_ticks);
    }
}

void gs_receiver_start(int receiver_tid)
{
    atomic_store(&tid, receiver_tid);
}
