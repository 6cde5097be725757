/* Fixture of the file tests: two watchers, and a temporary directory. The kernel queues its events
 * at each change, so the next iteration gets them; for polled files, the test's clock is advanced
 * to the time of the next poll. */
#ifndef GS_TESTS_LOOP_FILE_FIXTURE_H
#define GS_TESTS_LOOP_FILE_FIXTURE_H

#include "tests/loop/fixture.h"

#include <ftw.h>

static struct gs_loop *loop;
static struct gs_file a, b;
static unsigned events_of_a, events_of_b;
static uint64_t clock_ns;
static char directory[64];

static inline uint64_t read_clock(void *data)
{
    (void)data;
    return clock_ns;
}

static inline void on_change(struct gs_file *file, unsigned events)
{
    log_call(&file->watcher);
    *(file == &a ? &events_of_a : &events_of_b) |= events;
}

/* Create the temporary directory and change to it. */
static inline void set_up(void)
{
    const char *root = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/gossamer-XXXXXX",
             root && strlen(root) < 40 ? root : "/tmp");
    if (!mkdtemp(directory) || chdir(directory))
        abort();
    loop = new_loop();
    clock_ns = GS_SECOND;
    events_of_a = events_of_b = 0;
    gs_loop_set_clock(loop, read_clock, NULL);
    gs_file_init(&a, loop, on_change);
    gs_file_init(&b, loop, on_change);
    a.watcher.data = "a";
    b.watcher.data = "b";
}

static inline int remove_entry(const char *path, const struct stat *stat, int kind, struct FTW *at)
{
    (void)stat, (void)kind, (void)at;
    return remove(path);
}

static inline void tear_down(void)
{
    gs_loop_free(loop);
    gs_sys_set_fault(NULL, NULL);
    if (chdir("/") || nftw(directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS))
        abort();
}

static inline void append(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    put_byte(fd);
    close(fd);
}

static inline void create(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        abort();
    close(fd);
}

/* Run an iteration. Returns the events with which `a` was called. */
static inline unsigned next_events(void)
{
    events_of_a = events_of_b = 0;
    step(loop);
    return events_of_a;
}

static inline unsigned next_events_after(uint64_t passed_ns)
{
    clock_ns += passed_ns;
    return next_events();
}

#endif
