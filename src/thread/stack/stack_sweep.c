#include "thread/stack/stack_sweep.h"
#include "thread/stack/stack_away.h"

#include <gossamer/sys.h>
#include <sys/syscall.h>
#include <time.h>

/* A step of a sweep looks at so many slots, or gives so many stacks back; then threads have their
 * turn. */
#define STEP_SLOTS 2048u
#define STEP_STACKS 256u
/* The pause after a pass over all slots is so many times as long as the pass has taken, and after a
 * step while threads are ready, so many times as long as the step. */
#define PASS_PAUSE (GS_IS_CHAOS ? 0u : 50u)
#define STEP_PAUSE 8u

/* ---- A pass ---- */

/* Look at a private thread whose stack is resident. */
NOT_FOR_TSAN static void look_at(struct worker *worker, struct gs_thread *thread,
                                 struct sweep_batch *batch, uint64_t now_ns)
{
    const volatile struct gs_thread *at = thread;
    bool is_ours = at->worker == worker || (at->migrates && gs_runtime.is_multi);
    if (!at->is_live || at->is_done || !is_ours)
        return;
    if (gs_stack_is_waiting_long(thread, now_ns)) {
        batch->each[batch->count++] = thread;
        return;
    }
    uint64_t latest_ns = thread_is_waiting(thread) ? sweep_latest_ns(at->wait_start_ns) : 0;
    sweep_expect(&worker->sweep, latest_ns > now_ns ? latest_ns : sweep_latest_ns(now_ns));
}

/* Look at the slots of one word of the bitmap. */
static void look_at_word(struct worker *worker, struct sweep_batch *batch, uint64_t now_ns)
{
    struct stack_class *class = &gs_stack_classes[worker->sweep.class];
    size_t first = worker->sweep.word * 64;
    uint64_t bits =
        atomic_load_explicit(&class->resident[worker->sweep.word], memory_order_relaxed);
    for (; bits; bits &= bits - 1) {
        struct gs_thread *thread =
            gs_stacks_at((int)worker->sweep.class, first + (size_t)__builtin_ctzll(bits));
        if (thread)
            look_at(worker, thread, batch, now_ns);
        if (batch->count == SWEEP_BATCH)
            gs_stack_give_back(worker, batch, now_ns);
    }
}

/* Move to the next word. Returns false at the end of the last class. */
static bool next_word(struct sweep *sweep)
{
    sweep->word++;
    while (sweep->class < RESERVED_CLASSES &&
           sweep->word * 64 >=
               __atomic_load_n(&gs_stack_classes[sweep->class].used, __ATOMIC_ACQUIRE)) {
        sweep->class ++;
        sweep->word = 0;
    }
    return sweep->class < RESERVED_CLASSES;
}

/* Returns whether the pass is over. */
static bool step(struct worker *worker, uint64_t now_ns)
{
    struct sweep_batch batch = {.count = 0};
    uint64_t before = gs_stack_away_count();
    bool is_over = false;
    for (unsigned slots = 0; !is_over && slots < STEP_SLOTS; slots += 64) {
        is_over = !next_word(&worker->sweep);
        if (!is_over)
            look_at_word(worker, &batch, now_ns);
        /* Others may bring back more than this step gives back. */
        if ((int64_t)(gs_stack_away_count() - before) >= STEP_STACKS)
            break;
    }
    gs_stack_give_back(worker, &batch, now_ns);
    return is_over;
}

static void begin_pass(struct sweep *sweep)
{
    sweep->class = PLAIN_CLASSES;
    sweep->word = SIZE_MAX; /* the next is the first */
    sweep->busy_ns = 0;
}

static bool is_in_pass(const struct sweep *sweep)
{
    return sweep->class != PLAIN_CLASSES || sweep->word != SIZE_MAX;
}

/* If memory for the timer is exhausted, stacks stay. */
static void schedule(struct worker *worker, uint64_t deadline_ns)
{
    (void)!gs_timer_start(&worker->sweep.timer, deadline_ns);
}

/* Begin the next pass at due_ns, or as soon as the pause is over. */
static void schedule_pass(struct worker *worker, uint64_t due_ns)
{
    uint64_t earliest_ns = worker->sweep.earliest_ns;
    schedule(worker, due_ns > earliest_ns ? due_ns : earliest_ns);
}

/* Wall time would include that in which the kernel ran others: on a busy machine a preempted step
 * would be followed by a pause of seconds. */
static uint64_t cpu_time_ns(void)
{
    struct timespec used = {0};
    gs_syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&used, 0, 0, 0, 0);
    return (uint64_t)used.tv_sec * GS_SECOND + (uint64_t)used.tv_nsec;
}

/* A pass over all slots, in steps. If no private thread with its stack is left, the next pass
 * begins when there is one again. */
static void on_sweep(struct gs_timer *timer)
{
    struct worker *worker = gs_container_of(timer, struct worker, sweep.timer);
    struct sweep *sweep = &worker->sweep;
    uint64_t start_ns = cpu_time_ns();
    if (!gs_stacks_can_be_given_back() || atomic_load(&gs_runtime.is_deadlocked))
        return;
    if (!is_in_pass(sweep))
        sweep->due_ns = GS_NEVER; /* it looks at all that were expected */
    bool is_over = step(worker, *worker->now_ns);
    uint64_t end_ns = gs_clock_now(), taken_ns = cpu_time_ns() - start_ns;
    sweep->busy_ns += taken_ns;
    if (!is_over) {
        schedule(worker, count_read(&worker->ready) ? end_ns + STEP_PAUSE * taken_ns : end_ns);
        return;
    }
    sweep->earliest_ns = end_ns + PASS_PAUSE * sweep->busy_ns;
    begin_pass(sweep);
    if (sweep->due_ns != GS_NEVER)
        schedule_pass(worker, sweep->due_ns);
}

void gs_sweep_watch(struct worker *worker)
{
    struct sweep *sweep = &worker->sweep;
    uint64_t due_ns = sweep_latest_ns(*worker->now_ns);
    if (UNLIKELY(!sweep->timer.watcher.active) && gs_stacks_can_be_given_back()) {
        begin_pass(sweep);
        schedule_pass(worker, due_ns);
    } else {
        sweep_expect(sweep, due_ns); /* a pass may have gone past its slot */
    }
}

void gs_sweep_init_worker(struct worker *worker)
{
    gs_timer_init(&worker->sweep.timer, worker->loop, on_sweep);
}

void gs_sweep_stop_worker(struct worker *worker)
{
    gs_timer_stop(&worker->sweep.timer);
}
