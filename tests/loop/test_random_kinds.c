/* 100,000 random operations on every kind of watcher except descriptors and timers, which
 * test_random.c tests, are compared with a model: it determines which watchers each iteration must
 * call, and the order of their priorities. */
#include "loop/uring.h"
#include "tests/loop/kinds_model.h"

#define OPERATIONS 100000

/* ---- Callbacks ---- */

static void called(struct gs_watcher *watcher)
{
    struct model *m = gs_container_of(watcher, struct model, watcher);
    mistakes += !m->is_expected || watcher->priority > last_priority;
    last_priority = watcher->priority;
    calls_made++;
    m->is_expected = false;
    m->is_active = watcher->active;
    if (random_below(4) == 0)
        do_anything();
}

static void on_periodic(struct gs_periodic *periodic)
{
    called(&periodic->watcher);
}

static void on_signal(struct gs_signal *signal)
{
    called(&signal->watcher);
}

static void on_async(struct gs_async *async)
{
    called(&async->watcher);
}

static void on_file(struct gs_file *file, unsigned events)
{
    struct model *m = gs_container_of(file, struct model, file);
    bool is_there = exists[index_of(m, FILES)];
    mistakes += !(events & GS_FILE_CREATED) != !(is_there && !m->existed);
    mistakes += !(events & GS_FILE_REMOVED) != !(!is_there && m->existed);
    m->existed = is_there;
    m->was_touched = false;
    called(&file->watcher);
}

static void on_child(struct gs_child *child, const struct gs_child_exit *exit)
{
    struct model *m = gs_container_of(child, struct model, child);
    mistakes += exit->pid != m->pid || exit->code != (m->has_ended ? CLD_KILLED : 0);
    if (m->has_ended)
        m->pid = 0;
    m->has_ended = false;
    called(&child->watcher);
}

static void on_embed(struct gs_embed *embed, int result)
{
    mistakes += result < 0;
    called(&embed->watcher);
}

static void on_inner(struct gs_timer *timer)
{
    (void)timer;
}

static void on_idle(struct gs_idle *idle)
{
    called(&idle->watcher);
}

/* Step 1: the model only determines whether these are called. */
static void on_prepare(struct gs_prepare *prepare)
{
    struct model *m = gs_container_of(prepare, struct model, prepare);
    mistakes += !m->is_expected;
    m->is_expected = false;
    calls_made++;
}

static void on_check(struct gs_check *check)
{
    called(&check->watcher);
}

static void on_fork(struct gs_fork *fork)
{
    called(&fork->watcher);
}

/* ---- Iterations ---- */

static bool is_due(struct model *m, int kind)
{
    bool due = m->is_due;
    m->is_due = false;
    switch (kind) {
    case PERIODIC:
        while (m->interval_ns && m->at_ns > wall_ns + m->interval_ns)
            m->at_ns -= m->interval_ns;
        due |= m->at_ns <= wall_ns;
        while (m->interval_ns && m->at_ns <= wall_ns)
            m->at_ns += m->interval_ns;
        break;
    case SIGNAL:
        due |= is_raised[index_of(m, kind) % 2];
        break;
    case CHILD:
        due |= m->has_ended;
        break;
    case FILES: {
        bool is_there = exists[index_of(m, kind)];
        due |= is_there != m->existed || (is_there && m->was_touched);
        break;
    }
    case EMBEDDED:
        due |= gs_watcher_is_active(&m->inner_timer.watcher);
        break;
    default:
        break;
    }
    return due;
}

/* A reported change may turn out to be none when the file is checked, but it has prevented the
 * calls of idle watchers. Returns whether that is possible. */
static bool expect_all(void)
{
    bool is_any = false, is_touched = false;
    for (int kind = PERIODIC; kind <= EMBEDDED; kind++)
        for (int i = 0; i < EACH; i++) {
            struct model *m = &models[kind][i];
            is_touched |= m->is_active && (m->was_touched || m->is_polled);
            m->is_polled = false;
            m->is_expected = m->is_active && is_due(m, kind);
            is_any |= m->is_expected;
        }
    for (int i = 0; i < EACH; i++) {
        models[IDLE][i].is_expected = models[IDLE][i].is_active && !is_any;
        models[PREPARE][i].is_expected = models[PREPARE][i].is_active;
        models[CHECKS][i].is_expected = models[CHECKS][i].is_active;
        if (!models[FILES][i].is_expected)
            models[FILES][i].was_touched = false;
    }
    is_raised[0] = is_raised[1] = false;
    return is_touched;
}

static void iterate(void)
{
    jump_clock();
    bool are_idles_unsure = expect_all();
    last_priority = 2;
    calls_made = 0;
    is_iterating = true;
    mistakes += gs_loop_run_once(loop, 0) != calls_made;
    is_iterating = false;
    gs_loop_check(loop);
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < EACH; i++)
            mistakes += models[kind][i].is_expected && !(kind == IDLE && are_idles_unsure);
}

/* The requests of the ring that a child replaces are its parent's. Here they are this process's.
 * The kernel cancels those of a closed ring some time later. Until then they would hold inotify
 * instances, of which a user may have few, and without one the loop polls its files. */
static void cancel_requests(void)
{
    struct uring *uring = loop->poller_state;
    if (is_on(loop, "io_uring"))
        mistakes += gs_ring_enter(&uring->ring, 0, 0) || gs_ring_cancel_all(&uring->ring);
}

/* Do in this process what the child does after a fork. That discards pending events of files, so
 * there must be none. */
static void fork_here(void)
{
    iterate();
    cancel_requests();
    for (int i = 0; i < EACH; i++) {
        struct model *child = &models[CHILD][i];
        child->is_active = child->is_due = false;
        models[FORK][i].is_expected = models[FORK][i].is_active;
        models[FILES][i].is_polled = true;
    }
    is_raised[0] = is_raised[1] = false;
    last_priority = 2;
    mistakes += gs_loop_after_fork(loop) != 0;
    for (int i = 0; i < EACH; i++)
        mistakes += models[FORK][i].is_expected;
}

static void init(struct model *m, int kind)
{
    switch (kind) {
    case PERIODIC:
        gs_periodic_init(&m->periodic, loop, on_periodic);
        break;
    case SIGNAL:
        gs_signal_init(&m->signal, loop, on_signal);
        break;
    case ASYNC:
        gs_async_init(&m->async, loop, on_async);
        break;
    case FILES:
        gs_file_init(&m->file, loop, on_file);
        break;
    case CHILD:
        gs_child_init(&m->child, loop, on_child);
        break;
    case EMBEDDED:
        mistakes +=
            gs_loop_new_with(is_on(loop, "io_uring") ? "io_uring" : "epoll", &m->inner) != 0;
        gs_timer_init(&m->inner_timer, m->inner, on_inner);
        gs_embed_init(&m->embed, loop, m->inner, on_embed);
        break;
    case IDLE:
        gs_idle_init(&m->idle, loop, on_idle);
        break;
    case PREPARE:
        gs_prepare_init(&m->prepare, loop, on_prepare);
        break;
    case CHECKS:
        gs_check_init(&m->check, loop, on_check);
        break;
    case FORK:
        gs_fork_init(&m->fork, loop, on_fork);
        break;
    }
}

static void set_up(void)
{
    loop = new_loop();
    gs_loop_set_wall_clock(loop, read_wall, NULL);
    if (!mkdtemp(directory))
        abort();
    for (int i = 0; i < EACH; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%d", directory, i);
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < EACH; i++)
            init(&models[kind][i], kind);
}

static void tear_down(void)
{
    gs_loop_free(loop);
    for (int i = 0; i < EACH; i++) {
        gs_loop_free(models[EMBEDDED][i].inner);
        unlink(paths[i]);
        end_child(&models[CHILD][i]);
        waitpid(models[CHILD][i].pid, NULL, WNOHANG);
    }
    rmdir(directory);
}

static void operate(void)
{
    unsigned what = random_below(1000);
    if (what < 500)
        do_anything();
    else if (what < 650)
        change_file((int)random_below(EACH));
    else if (what < 655)
        end_child(&models[CHILD][random_below(EACH)]);
    else if (what < 660)
        fork_here();
    else if (what < 700)
        walk();
    else
        iterate();
}

TEST(random_operations_on_every_kind_agree_with_the_model)
{
    set_up();
    for (int i = 0; i < OPERATIONS; i++) {
        operate();
        if (mistakes)
            TEST_FAIL("operation %d differs from the model", i);
    }
    struct gs_loop_counts counts;
    gs_loop_counts(loop, &counts);
    CHECK(counts.callbacks > OPERATIONS / 10);
    tear_down();
}
