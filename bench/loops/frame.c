#include "bench/loops/frame.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE 64
#define SECOND_NS 1000000000u
#define LATER_ROUNDS 5
/* The delay of added timers, its spread, and how much later the timers are moved. */
#define FIRST_DUE_NS (2 * (uint64_t)SECOND_NS)
#define SPREAD_NS (SECOND_NS / 2)
#define LATER_NS SPREAD_NS

bool frame_has_timeouts;

static int (*pairs)[2];
static unsigned pair_count, to_forward, expected, received;
static unsigned fired;
static unsigned long control_calls, setup_calls;
static bool hides_control_calls;
static uint64_t seed = 1;

void frame_must(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "%s failed\n", what);
    exit(1);
}

void frame_unsupported(void)
{
    exit(3);
}

void frame_hides_control_calls(void)
{
    hides_control_calls = true;
}

/* Exported, so that shared libraries call this function in place of the C library's. */
__attribute__((visibility("default"))) int
counted_control(int set, int operation, int fd, struct epoll_event *event) __asm__("epoll_ctl");

int counted_control(int set, int operation, int fd, struct epoll_event *event)
{
    control_calls++;
    return (int)syscall(SYS_epoll_ctl, set, operation, fd, event);
}

void *frame_storage(size_t count, size_t size)
{
    size_t bytes = (count * size + LINE - 1) / LINE * LINE;
    void *storage = aligned_alloc(LINE, bytes ? bytes : LINE);
    frame_must(storage, "aligned_alloc");
    return memset(storage, 0, bytes);
}

static uint64_t random_below(uint64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (seed >> 32) * n >> 32;
}

uint64_t frame_timeout_ns(void)
{
    return UINT64_C(10) * SECOND_NS + random_below(SECOND_NS);
}

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* Single-threaded measurements do not wait; they use CPU time, which excludes that of other
 * programs. */
static uint64_t now_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

/* ---- Socket pairs ---- */

static void open_pairs(unsigned count)
{
    pair_count = count;
    pairs = frame_storage(count, sizeof *pairs);
    for (unsigned i = 0; i < count; i++)
        frame_must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pairs[i]), "socketpair");
}

static void send_to(unsigned i)
{
    frame_must(write(pairs[i][1], "e", 1) == 1, "write");
}

void frame_readable(unsigned i)
{
    char byte;
    frame_must(read(pairs[i][0], &byte, 1) == 1, "read");
    received++;
    if (!to_forward)
        return;
    to_forward--;
    send_to(i + 1 < pair_count ? i + 1 : 0);
}

static void set_up(void)
{
    for (unsigned i = 0; i < pair_count; i++)
        subject_watch(i, pairs[i][0], frame_has_timeouts ? frame_timeout_ns() : 0);
    subject_step();
}

/* One round of the benchmark: all watchers are set up and `active` bytes are sent; callbacks send
 * the same number again. */
static void measure_round(unsigned active, double ret_us[3])
{
    control_calls = 0;
    uint64_t start = now_ns();
    set_up();
    uint64_t ready = now_ns();
    setup_calls = control_calls;
    to_forward = active;
    expected = 2 * active;
    received = 0;
    for (unsigned i = 0; i < active; i++)
        send_to(i * (pair_count / active));
    uint64_t sent = now_ns();
    while (received < expected)
        subject_step();
    uint64_t end = now_ns();
    ret_us[0] = (double)(end - start) / 1e3;
    ret_us[1] = (double)(ready - start) / 1e3;
    ret_us[2] = (double)(end - sent) / 1e3;
}

static void measure_pairs(enum restart_mode restart_mode, unsigned count, unsigned active)
{
    double us[3], min_us[3];
    subject_open(restart_mode, count, frame_has_timeouts ? count : 0);
    open_pairs(count);
    measure_round(active, us);
    measure_round(active, us);
    printf("%.1f %.1f %.1f", us[0], us[1], us[2]);
    double calls = hides_control_calls ? NAN : (double)setup_calls / count;
    measure_round(active, min_us);
    for (unsigned i = 0; i < LATER_ROUNDS; i++) {
        measure_round(active, us);
        for (unsigned part = 0; part < 3; part++)
            min_us[part] = us[part] < min_us[part] ? us[part] : min_us[part];
    }
    printf(" %.1f %.1f %.1f %.3f\n", min_us[0], min_us[1], min_us[2], calls);
}

/* ---- Timers ---- */

void frame_fired(void)
{
    fired++;
}

/* Returns a random permutation of the numbers below count. */
static unsigned *random_order(unsigned count)
{
    unsigned *order = frame_storage(count, sizeof *order);
    for (unsigned i = 0; i < count; i++) {
        unsigned j = (unsigned)random_below(i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

static void sleep_until(uint64_t deadline_ns)
{
    struct timespec deadline = {(time_t)(deadline_ns / SECOND_NS), (long)(deadline_ns % SECOND_NS)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL))
        ;
}

static void measure_timer_round(unsigned count, const unsigned *order, const uint64_t *delays_ns,
                                double ret_ns[3])
{
    uint64_t start = now_ns();
    for (unsigned i = 0; i < count; i++)
        subject_set_timer(i, delays_ns[i]);
    subject_step();
    uint64_t added = now_ns();
    for (unsigned i = 0; i < count; i++)
        subject_set_timer(order[i], delays_ns[i] + LATER_NS);
    subject_step();
    uint64_t moved = now_ns();
    frame_must(!fired, "no timer before its time");
    sleep_until(read_clock(CLOCK_MONOTONIC) + FIRST_DUE_NS + SPREAD_NS + LATER_NS);
    uint64_t due = now_ns();
    while (fired < count)
        subject_step();
    uint64_t end = now_ns();
    ret_ns[0] = (double)(added - start) / count;
    ret_ns[1] = (double)(moved - added) / count;
    ret_ns[2] = (double)(end - due) / count;
    fired = 0;
}

/* The second round counts: then all memory has been used before. */
static void measure_timers(unsigned count)
{
    double ns[3];
    unsigned *order = random_order(count);
    uint64_t *delays_ns = frame_storage(count, sizeof *delays_ns);
    for (unsigned i = 0; i < count; i++)
        delays_ns[i] = FIRST_DUE_NS + random_below(SPREAD_NS);
    subject_open(RESTART_SAME, 0, count);
    subject_step();
    measure_timer_round(count, order, delays_ns, ns);
    measure_timer_round(count, order, delays_ns, ns);
    printf("%.2f %.2f %.2f\n", ns[0], ns[1], ns[2]);
}

/* ---- Memory ---- */

static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Measures the allocated memory per watcher and per timer. */
static void measure_memory(unsigned count)
{
    open_pairs(count);
    size_t before = allocated();
    subject_open(RESTART_SAME, count, count);
    for (unsigned i = 0; i < count; i++)
        subject_watch(i, pairs[i][0], 0);
    subject_step();
    size_t watched = allocated();
    for (unsigned i = 0; i < count; i++)
        subject_set_timer(i, frame_timeout_ns());
    size_t timed = allocated();
    printf("%.1f %.1f\n", (double)(watched - before) / count, (double)(timed - watched) / count);
}

static enum restart_mode restart_mode_of(const char *name)
{
    bool is_set = !strcmp(name, "set");
    frame_must(is_set || !strcmp(name, "same"), "MODE");
    return is_set ? RESTART_SET : RESTART_SAME;
}

static unsigned number_of(const char *text)
{
    return (unsigned)strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*measure)(unsigned count);
    } measurements[] = {
        {"timers", measure_timers},
        {"memory", measure_memory},
    };
    if (argc == 6 && !strcmp(argv[1], "pairs")) {
        frame_has_timeouts = number_of(argv[5]);
        measure_pairs(restart_mode_of(argv[2]), number_of(argv[3]), number_of(argv[4]));
        return 0;
    }
    for (size_t i = 0; argc == 3 && i < sizeof measurements / sizeof *measurements; i++)
        if (!strcmp(argv[1], measurements[i].name)) {
            measurements[i].measure(number_of(argv[2]));
            return 0;
        }
    fprintf(stderr, "usage: %s MEASUREMENT COUNT | pairs MODE PAIRS ACTIVE TIMEOUTS\n", argv[0]);
    return 2;
}
