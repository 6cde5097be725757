/* Settings of the whole library: memory, log, fatal errors and debug mode. */
#include "tests/libevent/transcript.h"
#include "tests/test.h"

#include <event2/event_struct.h>

static int blocks;

static void *counted_malloc(size_t size)
{
    void *memory = malloc(size);
    blocks += memory != NULL;
    return memory;
}

static void *counted_realloc(void *memory, size_t size)
{
    blocks += memory == NULL;
    return realloc(memory, size);
}

static void counted_free(void *memory)
{
    blocks -= memory != NULL;
    free(memory);
}

static void on_event(evutil_socket_t fd, short events, void *argument)
{
    (void)fd, (void)argument;
    say("events %s\n", names_of(events));
}

static void on_message(int severity, const char *message)
{
    if (severity != EVENT_LOG_DEBUG)
        say("severity %d: %s\n", severity, message);
}

TEST(all_memory_comes_from_the_functions_of_the_program)
{
    event_set_mem_functions(counted_malloc, counted_realloc, counted_free);
    struct event_base *base = event_base_new();
    CHECK(blocks > 0);
    int pipes[2];
    CHECK_EQ(pipe(pipes), 0);
    struct timeval soon = {0, 1000};
    struct event *event = event_new(base, pipes[0], EV_READ, on_event, NULL);
    CHECK_EQ(event_add(event, &soon), 0);
    say("loop %d\n", event_base_dispatch(base));
    event_free(event);
    event_base_free(base);
    libevent_global_shutdown();
    CHECK_EQ(blocks, 0);
    close(pipes[0]);
    close(pipes[1]);
    event_set_mem_functions(NULL, NULL, NULL);
}

TEST(messages_go_to_the_function_of_the_program)
{
    event_set_log_callback(on_message);
    event_enable_debug_logging(EVENT_DBG_NONE);
    struct event event;
    memset(&event, 0, sizeof event);
    say("add %d\n", event_add(&event, NULL));
    event_base_free(NULL);
    struct event_base *base = event_base_new();
    say("assign %d\n", event_assign(&event, base, 1, EV_SIGNAL | EV_READ, on_event, NULL));
    event_base_free(base);
    event_set_log_callback(NULL);
}

static void on_fatal(int status)
{
    say("fatal %d\n", status);
    _exit(3);
}

/* Returns the status of a child that calls `misuse` in debug mode. */
static int status_of(void (*misuse)(struct event_base *base))
{
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        event_set_fatal_callback(on_fatal);
        event_enable_debug_mode();
        misuse(event_base_new());
        _exit(0);
    }
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void add_unassigned(struct event_base *base)
{
    static struct event event;
    event_base_set(base, &event);
    event.ev_base = base;
    event_add(&event, NULL);
}

static void assign_added(struct event_base *base)
{
    static struct event event;
    struct timeval later = {1000, 0};
    event_assign(&event, base, -1, 0, on_event, NULL);
    event_add(&event, &later);
    event_assign(&event, base, -1, 0, on_event, NULL);
}

static void use_unassigned_again(struct event_base *base)
{
    static struct event event;
    event_assign(&event, base, -1, 0, on_event, NULL);
    event_debug_unassign(&event);
    event_active(&event, EV_READ, 1);
}

static void enable_twice(struct event_base *base)
{
    (void)base;
    event_enable_debug_mode();
}

static void use_correctly(struct event_base *base)
{
    struct event *events[200];
    struct timeval later = {1000, 0};
    for (int i = 0; i < 200; i++) {
        events[i] = event_new(base, -1, 0, on_event, NULL);
        event_add(events[i], &later);
    }
    for (int i = 0; i < 200; i += 2)
        event_free(events[i]);
    for (int i = 1; i < 200; i += 2) {
        event_add(events[i], NULL);
        event_free(events[i]);
    }
    event_base_free(base);
    libevent_global_shutdown();
}

TEST(debug_mode_finds_misuse)
{
    say("correct %d\n", status_of(use_correctly));
    say("unassigned %d\n", status_of(add_unassigned));
    say("assigned while added %d\n", status_of(assign_added));
    say("used after unassigning %d\n", status_of(use_unassigned_again));
    say("enabled twice %d\n", status_of(enable_twice));
}
