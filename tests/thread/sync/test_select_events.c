/* gs_select with descriptors, signals and children beside channels: exactly one case is done, and
 * the others remain as they are. */
#include "tests/refused_call.h"
#include "tests/thread/fixture.h"

enum { CHANNEL, PIPE, CHILD, SIGNALS, CASES };

static sigset_t signals, unsent;

/* Before the workers exist, which inherit the mask. */
static void block_signals(void)
{
    sigemptyset(&unsent);
    sigaddset(&unsent, SIGRTMIN + 1);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGUSR2);
    sigaddset(&signals, SIGRTMIN);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

static pid_t start_child(int status)
{
    pid_t pid = fork();
    MUST(pid >= 0);
    if (!pid)
        _exit(status);
    return pid;
}

static void await_zombie(pid_t pid)
{
    siginfo_t info;
    MUST_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

struct sources {
    struct gs_channel *channel;
    int pipe[2];
    int item;
    pid_t child;
    struct gs_select cases[CASES];
};

static void open_sources(struct sources *sources)
{
    MUST_EQ(gs_channel_new(sizeof(int), 1, &sources->channel), 0);
    /* QEMU has no RWF_NOWAIT: the pool would wait for each byte that another thread has read. */
    MUST_EQ(pipe2(sources->pipe, IS_EMULATED ? O_NONBLOCK : 0), 0);
    sources->cases[CHANNEL] =
        (struct gs_select){.channel = sources->channel, .receive = &sources->item};
    sources->cases[PIPE] = (struct gs_select){.fd = sources->pipe[0], .events = GS_READ};
    sources->cases[CHILD] = (struct gs_select){.child = getppid()}; /* no child */
    sources->cases[SIGNALS] = (struct gs_select){.signals = &signals};
}

static void close_sources(struct sources *sources)
{
    gs_channel_free(sources->channel);
    gs_close(sources->pipe[0]);
    gs_close(sources->pipe[1]);
}

static void trigger(struct sources *sources, int which)
{
    int item = 7;
    if (which == CHANNEL)
        MUST_EQ(gs_channel_send(sources->channel, &item, GS_NEVER), 0);
    else if (which == PIPE)
        MUST_EQ(write(sources->pipe[1], "x", 1), 1);
    else if (which == CHILD)
        kill(sources->child, SIGKILL);
    else
        kill(getpid(), SIGUSR2);
}

static void check_result(struct sources *sources, int which)
{
    char byte;
    int result = sources->cases[which].result;
    if (which == CHANNEL)
        MUST(!result && sources->item == 7);
    else if (which == PIPE)
        MUST(result == GS_READ && read(sources->pipe[0], &byte, 1) == 1);
    else if (which == CHILD)
        MUST(WIFSIGNALED(result) && WTERMSIG(result) == SIGKILL);
    else
        MUST_EQ(result, SIGUSR2);
}

static pid_t start_paused_child(void)
{
    pid_t pid = fork();
    MUST(pid >= 0);
    if (!pid)
        for (;;)
            pause();
    return pid;
}

static void *trigger_later(void *sources_)
{
    struct sources *sources = sources_;
    for (int which = 0; which < CASES; which++) {
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
        trigger(sources, which);
    }
    return NULL;
}

THREAD(select_each)
{
    struct sources sources;
    unsigned seen = 0;
    open_sources(&sources);
    sources.cases[CHILD].child = sources.child = start_paused_child();
    struct gs_thread *thread = spawn(trigger_later, &sources);
    for (unsigned count = CASES; count;) {
        int which = gs_select(sources.cases, CASES, GS_NEVER);
        MUST(which >= 0 && !(seen & 1u << which));
        check_result(&sources, which);
        seen |= 1u << which;
        count--;
        if (which == CHILD)
            sources.cases[CHILD] =
                (struct gs_select){.channel = sources.channel, .receive = &sources.item};
    }
    join(thread);
    MUST_EQ(gs_select(sources.cases, CASES, 0), -ETIMEDOUT);
    close_sources(&sources);
}

TEST(each_kind_of_event_ends_the_wait)
{
    block_signals();
    run_both(select_each);
}

THREAD(select_ready)
{
    struct sources sources;
    unsigned seen = 0, first = 0;
    for (int round = 0; round < 8 * CASES; round++, seen = 0) {
        open_sources(&sources);
        sources.cases[CHILD].child = sources.child = start_paused_child();
        for (int which = 0; which < CASES; which++)
            trigger(&sources, which);
        await_zombie(sources.child);
        for (int left = CASES; left; left--) {
            int which = gs_select(sources.cases, CASES, left % 2 ? 0 : GS_NEVER);
            MUST(which >= 0 && !(seen & 1u << which));
            check_result(&sources, which);
            seen |= 1u << which;
            first |= left == CASES ? 1u << which : 0;
            if (which == CHILD)
                sources.cases[CHILD] = (struct gs_select){.signals = &unsent};
        }
        MUST_EQ(seen, (1u << CASES) - 1);
        close_sources(&sources);
    }
    MUST_EQ(first, (1u << CASES) - 1);
}

TEST(of_several_events_one_is_taken_and_none_is_always_preferred)
{
    block_signals();
    run_both(select_ready);
}

static void *wait_for_nothing(void *sources)
{
    return (void *)(intptr_t)gs_select(((struct sources *)sources)->cases, 2, GS_NEVER);
}

THREAD(end_early)
{
    struct sources sources;
    open_sources(&sources);
    struct gs_select none = {.result = 1}, negative = {.fd = -1, .events = GS_READ},
                     no_child = {.child = getpid()};
    MUST_EQ(gs_select(&sources.cases[PIPE], 1, 0), -ETIMEDOUT);
    MUST_EQ(gs_select(&sources.cases[PIPE], 1, after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_wait_signals(&signals, after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_select(&none, 1, GS_NEVER), -EINVAL);
    MUST_EQ(gs_select(&negative, 1, GS_NEVER), -EBADF);
    MUST_EQ(gs_select(&no_child, 1, GS_NEVER), 0);
    MUST_EQ(no_child.result, -ECHILD);
    for (int i = 0; i < 20; i++) {
        struct gs_thread *thread = spawn(wait_for_nothing, &sources);
        for (int turn = i % 4; turn; turn--)
            gs_thread_yield();
        gs_thread_cancel(thread);
        MUST_EQ((intptr_t)join(thread), -ECANCELED);
    }
    MUST_EQ(gs_select(&sources.cases[CHANNEL], 1, 0), -ETIMEDOUT);
    close_sources(&sources);
}

TEST(select_of_events_times_out_and_is_canceled)
{
    block_signals();
    run_both(end_early);
}

THREAD(wait_for_sets)
{
    sigset_t first;
    sigemptyset(&first);
    sigaddset(&first, SIGUSR1);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    int one = gs_wait_signals(&signals, GS_NEVER), other = gs_wait_signals(&signals, GS_NEVER);
    MUST(one + other == SIGUSR1 + SIGUSR2 && one != other);
    kill(getpid(), SIGUSR2);
    MUST_EQ(gs_wait_signals(&first, after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_wait_signals(&signals, 0), SIGUSR2);
    MUST_EQ(gs_wait_signals(&signals, 0), -ETIMEDOUT);
}

TEST(signals_that_are_not_chosen_stay_pending)
{
    block_signals();
    run_both(wait_for_sets);
}

THREAD_TEST(select_of_many_descriptors, run_both)
{
    enum { MANY = 12 };
    struct gs_select cases[MANY];
    int pipes[MANY][2];
    for (int i = 0; i < MANY; i++) {
        MUST_EQ(pipe(pipes[i]), 0);
        cases[i] = (struct gs_select){.fd = pipes[i][0], .events = GS_READ};
    }
    MUST_EQ(gs_select(cases, MANY, after(GS_MILLISECOND)), -ETIMEDOUT);
    for (int i = 0; i < MANY; i++) {
        char byte;
        MUST_EQ(write(pipes[i][1], "x", 1), 1);
        MUST_EQ(gs_select(cases, MANY, GS_NEVER), i);
        MUST_EQ(read(pipes[i][0], &byte, 1), 1);
    }
    for (int i = 0; i < 2 * MANY; i++)
        gs_close(pipes[i / 2][i % 2]);
}

/* ---- Errors ---- */

/* As when other code has waited for the child meanwhile. */
static long find_no_child(long call, void *times)
{
    int *left = times;
    return call == SYS_pidfd_open && (*left)-- > 0 ? -ESRCH : 0;
}

THREAD_TEST(select_tries_again_when_a_child_is_not_found, run_on_one)
{
    enum { PIPES = 3 };
    struct gs_select cases[PIPES + 1] = {[PIPES] = {.child = start_paused_child()}};
    int pipes[PIPES][2], times = 5;
    for (int i = 0; i < PIPES; i++) {
        MUST_EQ(pipe(pipes[i]), 0);
        cases[i] = (struct gs_select){.fd = pipes[i][0], .events = GS_READ};
    }
    gs_sys_set_fault(find_no_child, &times);
    int index = gs_select(cases, PIPES + 1, after(GS_MILLISECOND));
    gs_sys_set_fault(NULL, NULL);
    MUST_EQ(index, -ETIMEDOUT);
    kill(cases[PIPES].child, SIGKILL);
    MUST_EQ(gs_select(cases, PIPES + 1, GS_NEVER), PIPES);
    for (int i = 0; i < 2 * PIPES; i++)
        gs_close(pipes[i / 2][i % 2]);
}

THREAD(run_out)
{
    struct sources sources;
    open_sources(&sources);
    sources.cases[CHILD].child = sources.child = start_paused_child();
    const long needed[] = {SYS_pidfd_open, SYS_signalfd4};
    int before = dup(0);
    for (int i = 0; i < 2; i++) {
        struct refused_call refused = {needed[i], -EMFILE};
        gs_sys_set_fault(refuse_call, &refused);
        int index = gs_select(sources.cases, CASES, GS_NEVER);
        gs_sys_set_fault(NULL, NULL);
        MUST_EQ(index, -EMFILE);
    }
    int later = dup(0);
    MUST_EQ(later, before + 1);
    close(before);
    close(later);
    trigger(&sources, CHILD);
    MUST_EQ(gs_select(sources.cases, CASES, GS_NEVER), CHILD);
    close_sources(&sources);
}

TEST(select_without_descriptors_left_fails_and_loses_nothing)
{
    block_signals();
    run_with(1, run_out);
}

/* ---- Races: several selects at the same sources ---- */

enum { SELECTORS = 5, EACH = 150 };

static struct sources shared;
static atomic_int taken[CASES];
static atomic_bool is_over;

static void take(struct gs_select *cases, int which)
{
    char byte;
    if (which == PIPE && gs_read(cases[PIPE].fd, &byte, 1, 0) != 1)
        return; /* another one has read it */
    if (which == SIGNALS)
        MUST_EQ(cases[SIGNALS].result, SIGRTMIN);
    if (which == CHILD)
        MUST_EQ(WEXITSTATUS(cases[CHILD].result), 3);
    atomic_fetch_add(&taken[which], 1);
}

/* Each selector has children of its own; deadlines pass at any point. */
static void *select_shared(void *number)
{
    unsigned turn = (unsigned)(uintptr_t)number;
    int item;
    while (!atomic_load(&is_over)) {
        pid_t pid = start_child(3);
        for (bool has_child = true; has_child;) {
            struct gs_select cases[CASES] = {
                [CHANNEL] = {.channel = shared.channel, .receive = &item},
                [PIPE] = {.fd = shared.pipe[0], .events = GS_READ},
                [CHILD] = {.child = pid},
                [SIGNALS] = {.signals = &signals}};
            int which = gs_select(cases, CASES, after(turn++ % 50 * (20 * GS_MICROSECOND)));
            if (which >= 0)
                take(cases, which);
            else
                MUST_EQ(which, -ETIMEDOUT);
            has_child = which != CHILD;
        }
    }
    return NULL;
}

static void *produce(void *which_)
{
    int which = (int)(intptr_t)which_, item = 0;
    const union sigval none = {.sival_int = 0};
    for (int i = 0; i < EACH; i++) {
        if (which == CHANNEL)
            MUST_EQ(gs_channel_send(shared.channel, &item, GS_NEVER), 0);
        else if (which == PIPE)
            MUST_EQ(gs_write(shared.pipe[1], "x", 1, GS_NEVER), 1);
        else
            MUST_EQ(sigqueue(getpid(), SIGRTMIN, none), 0);
        MUST_EQ(gs_thread_sleep(after((uint64_t)(i % 5) * 20 * GS_MICROSECOND)), 0);
    }
    while (atomic_load(&taken[which]) < EACH)
        MUST_EQ(gs_thread_sleep(after(100 * GS_MICROSECOND)), 0);
    return NULL;
}

static void *race(void *unused)
{
    const int kinds[] = {CHANNEL, PIPE, SIGNALS};
    struct gs_thread *selectors[SELECTORS], *producers[3];
    open_sources(&shared);
    atomic_store(&is_over, false);
    for (int i = 0; i < CASES; i++)
        atomic_store(&taken[i], 0);
    for (uintptr_t i = 0; i < SELECTORS; i++) {
        const struct gs_thread_attributes attributes = {.migrates = i % 2};
        MUST_EQ(gs_thread_spawn(&attributes, select_shared, (void *)i, &selectors[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        producers[i] = spawn(produce, (void *)(intptr_t)kinds[i]);
    for (int i = 0; i < 3; i++)
        join(producers[i]);
    atomic_store(&is_over, true);
    for (int i = 0; i < SELECTORS; i++)
        join(selectors[i]);
    for (int i = 0; i < 3; i++)
        MUST_EQ(atomic_load(&taken[kinds[i]]), EACH);
    MUST(atomic_load(&taken[CHILD]) >= SELECTORS);
    close_sources(&shared);
    return unused;
}

TEST(concurrent_selects_take_each_event_once)
{
    block_signals();
    run_both(race);
}
