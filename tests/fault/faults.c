#include "tests/fault/faults.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

/* Shared memory of the test and its servers, of which one runs at a time. */
struct control {
    /* result, from and times are written before `call`, and read only after `call` has matched. */
    atomic_int call;
    atomic_int result;
    atomic_uint from, times;
    atomic_uint seen, fired;

    atomic_uint made[FAULT_CALLS];
    atomic_long unlisted;
    atomic_int waiting, live;
    atomic_int left_live, left_descriptors;
    atomic_uint speed;
    _Atomic(uint64_t) passed_ns;
};

static struct control *control;
static bool is_server;
static uint64_t start_ns; /* the kernel's time when the server started */

/* number is 0 if calls.c or memory.c call fault_take themselves. */
static const struct {
    const char *name;
    long number;
} calls[FAULT_CALLS] = {
    [FAULT_ACCEPT] = {"accept4", 0},
    [FAULT_BIND] = {"bind", SYS_bind},
    [FAULT_CLOSE] = {"close", 0},
    [FAULT_DUP] = {"dup3", SYS_dup3},
    [FAULT_EPOLL_CREATE] = {"epoll_create1", SYS_epoll_create1},
    [FAULT_EPOLL_CTL] = {"epoll_ctl", 0},
    [FAULT_EPOLL_WAIT] = {"epoll_pwait2", 0},
    [FAULT_EVENTFD] = {"eventfd2", SYS_eventfd2},
    [FAULT_FCNTL] = {"fcntl", SYS_fcntl},
    [FAULT_FSTAT] = {"fstat", SYS_fstat},
    [FAULT_FSTATAT] = {"newfstatat", SYS_newfstatat},
    [FAULT_GETSOCKNAME] = {"getsockname", SYS_getsockname},
    [FAULT_IOCTL] = {"ioctl", SYS_ioctl},
    [FAULT_LISTEN] = {"listen", SYS_listen},
    [FAULT_OPENAT2] = {"openat2", SYS_openat2},
    [FAULT_PREAD] = {"pread64", 0},
    [FAULT_RECV] = {"recvfrom", 0},
    [FAULT_SEND] = {"sendto", 0},
    [FAULT_SENDFILE] = {"sendfile", 0},
    [FAULT_SENDMSG] = {"sendmsg", 0},
    [FAULT_SETSOCKOPT] = {"setsockopt", SYS_setsockopt},
    [FAULT_SHUTDOWN] = {"shutdown", SYS_shutdown},
    [FAULT_SOCKET] = {"socket", SYS_socket},
    [FAULT_WRITE] = {"write", 0},
    [FAULT_ALLOCATION] = {"allocation", 0},
    [FAULT_MMAP] = {"mmap", 0},
    [FAULT_THREAD] = {"pthread_create", 0},
    [FAULT_ADDRESS] = {"getaddrinfo", 0},
};

/* The wrappers in calls.c make these calls and inject their faults. */
static const long wrapped[] = {SYS_accept4,  SYS_close,   SYS_epoll_ctl, SYS_epoll_pwait2,
                               SYS_pread64,  SYS_preadv2, SYS_recvfrom,  SYS_sendto,
                               SYS_sendfile, SYS_sendmsg, SYS_write,     SYS_writev};

/* The runtime of user-level threads makes these calls, and its own tests inject their faults; the
 * runtime also reads in /proc why a worker is stuck, and its monitor borrows descriptors. */
static const long elsewhere[] = {SYS_io_uring_enter, SYS_io_uring_register,
                                 SYS_io_uring_setup, SYS_madvise,
                                 SYS_mmap,           SYS_mprotect,
                                 SYS_munmap,         SYS_pipe2,
                                 SYS_ppoll,          SYS_read,
                                 SYS_getsockopt,     SYS_cachestat,
                                 SYS_openat,         SYS_process_madvise,
                                 SYS_pidfd_open};

static const char *result_name(int result)
{
    switch (result) {
    case FAULT_SHORT:
        return "short";
    case FAULT_ENDED:
        return "end of file";
    case FAULT_FILLS_UP:
        return "short, then ENOSPC";
    default:
        return strerrorname_np(-result);
    }
}

const char *fault_name(const struct fault *fault)
{
    static char name[80];
    snprintf(name, sizeof name, "%s: %s", calls[fault->call].name, result_name(fault->result));
    return name;
}

void fault_init(void)
{
    if (control)
        return;
    void *memory =
        mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    control = memory;
    atomic_store(&control->call, FAULT_CALLS);
    atomic_store(&control->speed, 1);
}

void fault_arm(const struct fault *fault, unsigned from, unsigned times)
{
    atomic_store(&control->result, fault->result);
    atomic_store(&control->from, from);
    atomic_store(&control->times, times);
    atomic_store(&control->seen, 0);
    atomic_store(&control->fired, 0);
    atomic_store(&control->call, (int)fault->call);
}

unsigned fault_disarm(void)
{
    atomic_store(&control->call, FAULT_CALLS);
    return atomic_load(&control->fired);
}

void fault_set_speed(unsigned speed)
{
    atomic_store(&control->speed, speed);
}

void fault_pass(uint64_t ns)
{
    atomic_fetch_add(&control->passed_ns, ns);
}

unsigned fault_made(enum fault_call call)
{
    return atomic_load(&control->made[call]);
}

long fault_unlisted(void)
{
    return atomic_load(&control->unlisted);
}

int fault_live(void)
{
    return atomic_load(&control->live);
}

int fault_waiting(void)
{
    return atomic_load(&control->waiting);
}

void fault_left(int *ret_live, int *ret_descriptors)
{
    *ret_live = atomic_load(&control->left_live);
    *ret_descriptors = atomic_load(&control->left_descriptors);
}

static bool is_known(long number)
{
    for (size_t i = 0; i < sizeof wrapped / sizeof *wrapped; i++)
        if (wrapped[i] == number)
            return true;
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (elsewhere[i] == number)
            return true;
    return false;
}

static long on_call(long number, void *data)
{
    (void)data;
    for (int call = 0; call < FAULT_CALLS; call++)
        if (calls[call].number == number && number)
            return fault_take((enum fault_call)call);
    if (!is_known(number))
        atomic_store(&control->unlisted, number);
    return 0;
}

void fault_enter(void)
{
    start_ns = gs_clock_now();
    for (int call = 0; call < FAULT_CALLS; call++)
        atomic_store(&control->made[call], 0);
    atomic_store(&control->waiting, 0);
    atomic_store(&control->live, 0);
    atomic_store(&control->passed_ns, 0);
    is_server = true;
    gs_sys_set_fault(on_call, NULL);
}

void fault_leave(int descriptors)
{
    atomic_store(&control->left_live, atomic_load(&control->live));
    atomic_store(&control->left_descriptors, descriptors);
    gs_sys_set_fault(NULL, NULL);
    is_server = false;
}

static bool is_armed(enum fault_call call)
{
    int armed = atomic_load(&control->call);
    return armed == (int)call ||
           (armed == FAULT_MEMORY && (call == FAULT_ALLOCATION || call == FAULT_ACCEPT));
}

int fault_take(enum fault_call call)
{
    if (!is_server)
        return 0;
    atomic_fetch_add(&control->made[call], 1);
    if (!is_armed(call))
        return 0;
    unsigned n = atomic_fetch_add(&control->seen, 1) + 1;
    unsigned from = atomic_load(&control->from);
    if (n < from || n - from >= atomic_load(&control->times))
        return 0;
    atomic_fetch_add(&control->fired, 1);
    int result = atomic_load(&control->result);
    if (result != FAULT_FILLS_UP)
        return result;
    return n == from ? FAULT_SHORT : -ENOSPC;
}

void fault_count_live(int change)
{
    if (is_server)
        atomic_fetch_add(&control->live, change);
}

void fault_count_waiting(int change)
{
    if (is_server)
        atomic_fetch_add(&control->waiting, change);
}

uint64_t fault_scale(uint64_t ns)
{
    return is_server && ns != GS_NEVER ? ns / atomic_load(&control->speed) : ns;
}

uint64_t fault_clock(uint64_t now_ns)
{
    if (!is_server)
        return now_ns;
    return start_ns + (now_ns - start_ns) * atomic_load(&control->speed) +
           atomic_load(&control->passed_ns);
}
