/* What a process holds when it creates its first thread: signals that are pending, masks, timers,
 * the alternate stack, locks, the cancel state. All of it is the first thread's afterwards. Each
 * row is a process of its own, in which `prepare` runs before the first thread exists, and `show`
 * after. */
#include "tests/compat/pthread/program.h"

#include <locale.h>
#include <sys/time.h>
#include <xmmintrin.h>

static sigset_t usr2, queued_ones;
static volatile sig_atomic_t handled;
static volatile uintptr_t handlers_frame;
static char own_stack[64 * 1024];

static void on_signal(int number)
{
    handled = handled * 100 + number;
    handlers_frame = (uintptr_t)__builtin_frame_address(0);
}

static void *nothing(void *argument)
{
    return argument;
}

/* ---- Pending signals ---- */

static void block(const sigset_t *set)
{
    signal(SIGUSR2, on_signal);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

static void prepare_raise(void)
{
    block(&usr2);
    raise(SIGUSR2);
}

static void prepare_kill(void)
{
    block(&usr2);
    kill(getpid(), SIGUSR2);
}

static void prepare_both(void)
{
    prepare_raise();
    kill(getpid(), SIGUSR2);
}

/* Values in the order in which they are to come: the thread's before the process's. */
static void prepare_queued(void)
{
    block(&queued_ones);
    sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 5});
    for (int i = 1; i <= 3; i++)
        pthread_sigqueue(pthread_self(), SIGRTMIN + 1, (union sigval){.sival_int = i});
    pthread_sigqueue(pthread_self(), SIGRTMIN + 2, (union sigval){.sival_int = 4});
    sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 6});
}

static void show_sigwait(void)
{
    int number = 0;
    SHOW(sigwait(&usr2, &number));
    SHOW(number == SIGUSR2);
}

static void show_unblock(void)
{
    SHOW(pthread_sigmask(SIG_UNBLOCK, &usr2, NULL));
    SHOW(handled == SIGUSR2);
}

static void show_twice(void)
{
    show_sigwait();
    show_unblock();
}

static void show_sigpending(void)
{
    sigset_t set;
    SHOW(sigpending(&set));
    SHOW(sigismember(&set, SIGUSR2));
}

static void show_ppoll(void)
{
    const struct timespec limit = {.tv_sec = 5};
    sigset_t none;
    sigemptyset(&none);
    SHOW_ERROR(ppoll(NULL, 0, &limit, &none));
    SHOW(handled == SIGUSR2);
}

static void show_signalfd(void)
{
    struct signalfd_siginfo info = {0};
    int fd = signalfd(-1, &usr2, SFD_NONBLOCK);
    SHOW_ERROR(read(fd, &info, sizeof info));
    SHOW(info.ssi_signo == SIGUSR2);
}

static void show_values(void)
{
    const struct timespec now = {0};
    siginfo_t info;
    for (int number; (number = sigtimedwait(&queued_ones, &info, &now)) > 0;) {
        SHOW(number - SIGRTMIN);
        SHOW(info.si_value.sival_int);
        SHOW(info.si_pid == getpid());
    }
}

/* A child has no pending signal. */
static void show_fork(void)
{
    int status;
    pid_t child = fork();
    if (!child) {
        show_sigpending();
        exit(0);
    }
    waitpid(child, &status, 0);
    show_sigwait();
}

static void *pending_of_other(void *unused)
{
    show_sigpending();
    return unused;
}

/* What is pending for the first thread alone is not for another; its mask is inherited. */
static void show_other_thread(void)
{
    finish(start(pending_of_other, NULL));
    show_sigwait();
}

/* ---- Timers ---- */

static void start_timer(int kind)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = kind, .sigev_signo = SIGUSR2};
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    const struct itimerspec once = {.it_value.tv_nsec = 50000000};
    SHOW(timer_create(CLOCK_MONOTONIC, &event, &timer));
    SHOW(timer_settime(timer, 0, &once, NULL));
}

static void prepare_timer(void)
{
    block(&usr2);
    start_timer(SIGEV_SIGNAL);
}

static void prepare_thread_timer(void)
{
    signal(SIGUSR2, on_signal);
    start_timer(SIGEV_THREAD_ID);
}

static void show_timer(void)
{
    while (!handled)
        sleep_ms(1);
    SHOW(handled == SIGUSR2);
}

static void prepare_interval(void)
{
    const struct itimerval once = {.it_value.tv_usec = 50000};
    signal(SIGALRM, on_signal);
    SHOW(setitimer(ITIMER_REAL, &once, NULL));
}

static void show_interval(void)
{
    while (!handled)
        sleep_ms(1);
    SHOW(handled == SIGALRM);
}

/* ---- The alternate stack ---- */

static void prepare_stack(void)
{
    const stack_t stack = {.ss_sp = own_stack, .ss_size = sizeof own_stack};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    SHOW(sigaltstack(&stack, NULL));
    SHOW(sigaction(SIGUSR2, &action, NULL));
}

static void show_stack(void)
{
    stack_t stack;
    SHOW(sigaltstack(NULL, &stack));
    SHOW(stack.ss_sp == own_stack);
    raise(SIGUSR2);
    SHOW(handlers_frame - (uintptr_t)own_stack < sizeof own_stack);
}

/* ---- Locks ---- */

static pthread_mutex_t mutexes[4];
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinlock;
static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
                            PTHREAD_MUTEX_NORMAL};

static void prepare_locks(void)
{
    for (int i = 0; i < 4; i++) {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_settype(&attributes, types[i]);
        pthread_mutexattr_setrobust(&attributes,
                                    i == 3 ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED);
        pthread_mutex_init(&mutexes[i], &attributes);
        SHOW(pthread_mutex_lock(&mutexes[i]));
    }
    pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE);
    SHOW(pthread_rwlock_wrlock(&rwlock));
    SHOW(pthread_spin_lock(&spinlock));
}

static void *try_locks(void *unused)
{
    for (int i = 0; i < 4; i++)
        SHOW(pthread_mutex_trylock(&mutexes[i]));
    SHOW(pthread_rwlock_tryrdlock(&rwlock));
    SHOW(pthread_spin_trylock(&spinlock));
    return unused;
}

static void *wait_for_lock(void *unused)
{
    bool has_waited = !pthread_mutex_lock(&mutexes[0]) && !pthread_mutex_unlock(&mutexes[0]);
    return has_waited ? &rwlock : unused;
}

static void show_locks(void)
{
    finish(start(try_locks, NULL));
    pthread_t waiter = start(wait_for_lock, NULL);
    sleep_ms(10);
    SHOW(pthread_mutex_lock(&mutexes[1]));
    SHOW(pthread_mutex_unlock(&mutexes[1]));
    SHOW(pthread_mutex_lock(&mutexes[2]));
    for (int i = 0; i < 4; i++)
        SHOW(pthread_mutex_unlock(&mutexes[i]));
    SHOW(pthread_rwlock_unlock(&rwlock));
    SHOW(pthread_spin_unlock(&spinlock));
    SHOW(finish(waiter) == (long)&rwlock);
}

static void *inherit_robust(void *unused)
{
    SHOW(pthread_mutex_lock(&mutexes[3]) == EOWNERDEAD);
    SHOW(pthread_mutex_consistent(&mutexes[3]));
    fflush(NULL);
    _exit(0);
    return unused;
}

static void show_robust(void)
{
    start(inherit_robust, NULL);
    pthread_exit(NULL);
}

/* ---- Cancelation ---- */

static void on_cleanup(void *unused)
{
    (void)unused;
    printf("cleanup\n");
}

static void prepare_no_cancelation(void)
{
    SHOW(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL));
}

static void prepare_pending_cancelation(void)
{
    prepare_no_cancelation();
    SHOW(pthread_cancel(pthread_self()));
}

static void *cancel(void *thread)
{
    SHOW(pthread_cancel(*(pthread_t *)thread));
    return NULL;
}

static pthread_key_t cleanup;

/* A destructor is called as the thread ends. */
static void show_cancelation(void)
{
    pthread_t self = pthread_self();
    int before = -1;
    finish(start(cancel, &self));
    pthread_testcancel();
    pthread_key_create(&cleanup, on_cleanup);
    pthread_setspecific(cleanup, &cleanup);
    SHOW(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before));
    SHOW(before == PTHREAD_CANCEL_DISABLE);
    pthread_testcancel();
    printf("not canceled\n");
}

/* ---- Values of the thread ---- */

static pthread_key_t key;
static _Thread_local int local = 1;

static void prepare_values(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    pthread_key_create(&key, NULL);
    pthread_setspecific(key, &key);
    local = 2;
    errno = EXDEV;
    _MM_SET_ROUNDING_MODE(_MM_ROUND_UP);
    _MM_SET_EXCEPTION_STATE(_MM_EXCEPT_DIV_ZERO);
    uselocale(newlocale(LC_ALL_MASK, "C", NULL));
    prctl(PR_SET_NAME, "first");
    sched_setaffinity(0, sizeof one, &one);
    errno = EXDEV;
}

static void show_values_of_thread(void)
{
    char name[16] = "";
    cpu_set_t set;
    SHOW(errno == EXDEV);
    SHOW(_MM_GET_ROUNDING_MODE() == _MM_ROUND_UP);
    SHOW(_MM_GET_EXCEPTION_STATE() == _MM_EXCEPT_DIV_ZERO);
    SHOW(local);
    SHOW(pthread_getspecific(key) == &key);
    SHOW(uselocale(NULL) == LC_GLOBAL_LOCALE);
    prctl(PR_GET_NAME, name);
    SHOW(!strcmp(name, "first"));
    sched_getaffinity(0, sizeof set, &set);
    SHOW(CPU_COUNT(&set));
}

static const struct {
    const char *name;
    void (*prepare)(void), (*show)(void);
} rows[] = {
    {"raise, sigwait", prepare_raise, show_sigwait},
    {"raise, unblock", prepare_raise, show_unblock},
    {"raise, sigpending", prepare_raise, show_sigpending},
    {"raise, ppoll", prepare_raise, show_ppoll},
    {"raise, fork", prepare_raise, show_fork},
    {"raise, another thread", prepare_raise, show_other_thread},
    {"kill, sigwait", prepare_kill, show_sigwait},
    {"kill, unblock", prepare_kill, show_unblock},
    {"kill, sigpending", prepare_kill, show_sigpending},
    {"kill, ppoll", prepare_kill, show_ppoll},
    {"kill, signalfd", prepare_kill, show_signalfd},
    {"kill, fork", prepare_kill, show_fork},
    {"kill, another thread", prepare_kill, show_other_thread},
    {"both, twice", prepare_both, show_twice},
    {"queued values", prepare_queued, show_values},
    {"timer, sigwait", prepare_timer, show_sigwait},
    {"timer of the thread", prepare_thread_timer, show_timer},
    {"interval timer", prepare_interval, show_interval},
    {"alternate stack", prepare_stack, show_stack},
    {"locks", prepare_locks, show_locks},
    {"robust mutex", prepare_locks, show_robust},
    {"cancelation", prepare_no_cancelation, show_cancelation},
    {"pending cancelation", prepare_pending_cancelation, show_cancelation},
    {"values", prepare_values, show_values_of_thread},
};

static void run(size_t i)
{
    alarm(20);
    rows[i].prepare();
    finish(start(nothing, NULL));
    rows[i].show();
}

int main(void)
{
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    sigemptyset(&queued_ones);
    sigaddset(&queued_ones, SIGRTMIN + 1);
    sigaddset(&queued_ones, SIGRTMIN + 2);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        printf("%s\n", rows[i].name);
        fflush(NULL);
        pid_t child = fork();
        if (!child) {
            run(i);
            exit(0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        printf("status %d\n", status);
    }
    return 0;
}
