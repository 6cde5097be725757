/* Signals to threads and to the process, masks, alternate stacks, EINTR and SA_RESTART, sigwait. */
#include "tests/compat/pthread/program.h"

#include <setjmp.h>
#include <sys/time.h>

static atomic_int calls, last_number, on_stack;
static pthread_t main_thread;
static atomic_int caller_is_main;
static char stack_memory[65536];

static void count_call(int number)
{
    calls++;
    last_number = number;
    caller_is_main = pthread_equal(pthread_self(), main_thread);
}

static void note_stack(int number, siginfo_t *info, void *context)
{
    char local;
    (void)context;
    on_stack = &local > stack_memory && &local < stack_memory + sizeof stack_memory;
    last_number = number;
    SHOW(info->si_signo);
    SHOW(info->si_code);
    SHOW(info->si_value.sival_int);
}

static void handle(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    SHOW_ERROR(sigaction(number, &action, NULL));
}

/* ---- Interrupted calls ---- */

static int ends[2];
static atomic_int is_waiting;

static void *read_one(void *unused)
{
    char byte = 0;
    (void)unused;
    is_waiting = 1;
    ssize_t n = read(ends[0], &byte, 1);
    return (void *)(long)(n < 0 ? -errno : n);
}

static void *poll_one(void *unused)
{
    struct pollfd poll_fd = {.fd = ends[0], .events = POLLIN};
    (void)unused;
    is_waiting = 1;
    int n = poll(&poll_fd, 1, 10000);
    return (void *)(long)(n < 0 ? -errno : n);
}

static void *sleep_one(void *unused)
{
    const struct timespec time = {10, 0};
    struct timespec rest = {0, 0};
    (void)unused;
    is_waiting = 1;
    int n = nanosleep(&time, &rest);
    return (void *)(long)(n < 0 ? -errno : n);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_done;

static void *wait_one(void *unused)
{
    pthread_mutex_lock(&mutex);
    is_waiting = 1;
    while (!is_done)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void interrupt(void *(*fn)(void *), bool writes)
{
    is_waiting = 0;
    int before = calls;
    pthread_t thread = start(fn, NULL);
    while (!is_waiting)
        sched_yield();
    sleep_ms(100); /* it must be in the call: a signal before interrupts nothing */
    SHOW(pthread_kill(thread, SIGUSR1));
    while (calls == before)
        sched_yield();
    sleep_ms(5);
    if (writes)
        SHOW_ERROR(write(ends[1], "x", 1));
    if (fn == wait_one) {
        pthread_mutex_lock(&mutex);
        is_done = true;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&mutex);
    }
    SHOW(finish(thread));
    SHOW(calls - before);
    SHOW(caller_is_main);
}

static void test_interruption(void)
{
    SHOW_ERROR(pipe(ends));
    handle(SIGUSR1, count_call, 0);
    interrupt(read_one, false);
    interrupt(poll_one, false);
    interrupt(sleep_one, false);
    interrupt(wait_one, false);
    handle(SIGUSR1, count_call, SA_RESTART);
    interrupt(read_one, true);
    interrupt(poll_one, false);
    interrupt(sleep_one, false);
}

/* ---- Masks ---- */

static void *block_and_wait(void *unused)
{
    sigset_t set, pending;
    int number = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    is_waiting = 1;
    while (is_waiting == 1)
        sched_yield();
    sigpending(&pending);
    SHOW(sigismember(&pending, SIGUSR2));
    SHOW(calls);
    SHOW(sigwait(&set, &number));
    SHOW(number);
    is_waiting = 1;
    while (is_waiting == 1)
        sched_yield();
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    SHOW(calls);
    SHOW(last_number == SIGUSR2);
    return unused;
}

static void test_masks(void)
{
    handle(SIGUSR2, count_call, 0);
    calls = is_waiting = 0;
    pthread_t thread = start(block_and_wait, NULL);
    for (int round = 0; round < 2; round++) {
        while (is_waiting != 1)
            sched_yield();
        SHOW(pthread_kill(thread, SIGUSR2));
        is_waiting = 2;
        sleep_ms(20);
    }
    finish(thread);
}

/* All threads block the signal: sigwait, sigtimedwait and signalfd take it. */
static void *wait_for_set(void *set)
{
    int number = 0;
    sigwait(set, &number);
    return (void *)(long)number;
}

static void test_sigwait(void)
{
    sigset_t set;
    siginfo_t info;
    struct signalfd_siginfo read_info;
    const struct timespec soon = {0, 20000000};
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGRTMIN + 1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_t thread = start(wait_for_set, &set);
    sleep_ms(10);
    SHOW_ERROR(kill(getpid(), SIGTERM));
    SHOW(finish(thread));
    SHOW_ERROR(sigtimedwait(&set, &info, &soon));
    SHOW_ERROR(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 42}));
    SHOW_ERROR(sigwaitinfo(&set, &info) == SIGRTMIN + 1);
    SHOW(info.si_value.sival_int);
    int fd = signalfd(-1, &set, 0);
    SHOW_ERROR(kill(getpid(), SIGTERM));
    SHOW_ERROR(read(fd, &read_info, sizeof read_info));
    SHOW(read_info.ssi_signo);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* ---- The process, alternate stacks, jumps, timers, faults ---- */

static sigjmp_buf escape;

static void jump(int number)
{
    siglongjmp(escape, number);
}

static int *volatile nowhere; /* unknown to the compiler */

static void *jump_out_of_fault(void *unused)
{
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, NULL);
    for (int i = 0; i < 3; i++) {
        int number = sigsetjmp(escape, 1);
        if (!number)
            *nowhere = 1;
        SHOW(number);
    }
    return unused;
}

static void test_process(void)
{
    struct sigaction action = {.sa_sigaction = note_stack, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t stack = {.ss_sp = stack_memory, .ss_size = sizeof stack_memory}, before;
    calls = 0;
    handle(SIGHUP, count_call, 0);
    SHOW_ERROR(kill(getpid(), SIGHUP));
    SHOW(calls);
    SHOW_ERROR(raise(SIGHUP));
    SHOW(calls);
    SHOW_ERROR(sigaltstack(&stack, &before));
    SHOW(before.ss_flags);
    SHOW_ERROR(sigaction(SIGRTMIN + 2, &action, NULL));
    SHOW(pthread_sigqueue(pthread_self(), SIGRTMIN + 2, (union sigval){.sival_int = 9}));
    SHOW(on_stack);
    struct sigaction handler = {.sa_handler = jump, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &handler, NULL);
    finish(start(jump_out_of_fault, NULL));
    handle(SIGALRM, count_call, 0);
    calls = 0;
    /* Again and again: the first may come before pause on a busy machine. */
    const struct itimerval timer = {.it_value = {0, 10000}, .it_interval = {0, 10000}}, none = {0};
    SHOW_ERROR(setitimer(ITIMER_REAL, &timer, NULL));
    SHOW_ERROR(pause());
    SHOW_ERROR(setitimer(ITIMER_REAL, &none, NULL));
    SHOW(calls > 0);
    handle(SIGHUP, count_call, (int)SA_RESETHAND);
    SHOW_ERROR(raise(SIGHUP));
    struct sigaction now;
    sigaction(SIGHUP, NULL, &now);
    SHOW(now.sa_handler == SIG_DFL);
}

/* A process sends to its group, and to itself by a descriptor: the handler runs before the call
 * returns, as the other threads block the signal. */
static void *block_all(void *until)
{
    sigset_t set;
    sigfillset(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sem_wait(until);
    return NULL;
}

static long send_by_descriptor(long fd, int number, siginfo_t *info)
{
    return syscall(SYS_pidfd_send_signal, fd, number, info, 0);
}

static void test_group(void)
{
    sem_t end;
    sem_init(&end, 0, 0);
    setpgid(0, 0);
    handle(SIGUSR1, count_call, 0);
    calls = 0;
    pthread_t other = start(block_all, &end);
    SHOW_ERROR(kill(0, SIGUSR1));
    SHOW(calls);
    SHOW_ERROR(kill(-getpgrp(), SIGUSR1));
    SHOW(calls);
    SHOW_ERROR(kill(0, 0));
    char path[32];
    snprintf(path, sizeof path, "/proc/%d", getpid());
    long fd = syscall(SYS_pidfd_open, getpid(), 0), folder = open(path, O_DIRECTORY);
    SHOW_ERROR(send_by_descriptor(fd, SIGUSR1, NULL));
    SHOW(calls);
    SHOW_ERROR(send_by_descriptor(folder, SIGUSR1, NULL));
    SHOW(calls);
    siginfo_t info = {.si_signo = SIGRTMIN + 2, .si_code = SI_QUEUE, .si_value.sival_int = 12};
    struct sigaction action = {.sa_sigaction = note_stack, .sa_flags = SA_SIGINFO};
    SHOW_ERROR(sigaction(SIGRTMIN + 2, &action, NULL));
    SHOW_ERROR(send_by_descriptor(fd, SIGRTMIN + 2, &info));
    SHOW_ERROR(send_by_descriptor(fd, SIGUSR1, &info));
    SHOW_ERROR(send_by_descriptor(fd, 0, NULL));
    SHOW_ERROR(send_by_descriptor(fd, 65, NULL));
    SHOW_ERROR(send_by_descriptor(0, SIGUSR1, NULL));
    SHOW_ERROR(send_by_descriptor(-1, SIGUSR1, NULL));
    close((int)fd);
    close((int)folder);
    sem_post(&end);
    finish(other);
}

static void *die(void *unused)
{
    sleep_ms(10);
    raise(SIGTERM);
    return unused;
}

int main(void)
{
    main_thread = pthread_self();
    test_interruption();
    test_masks();
    test_sigwait();
    test_process();
    test_group();
    fflush(stdout);
    start(die, NULL);
    pause();
    return 0;
}
