/* Signals that threads send to themselves: what handlers block, and jumps out of them; and what
 * other programs and timers have to do with a thread's signals. */
#include "mask.h"
#include "program.h"

static volatile sig_atomic_t depth, max_depth, count, calls[16];
static pthread_t expected;
static sigjmp_buf place;
static sem_t done;

static void report(const char *name)
{
    printf("%s: depth %d, calls", name, (int)max_depth);
    for (int i = 0; i < count; i++)
        printf(" %d", (int)calls[i]);
    printf(", blocked %d %d %d\n", is_blocked(SIGUSR1), is_blocked(SIGUSR2), is_blocked(SIGHUP));
    count = max_depth = 0;
}

static void set_action(int number, void (*handler)(int), int flags, int blocked)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (blocked)
        action.sa_mask = set_of(blocked);
    sigaction(number, &action, NULL);
}

/* ---- What handlers block ---- */

static void nest(int number)
{
    if (++depth > max_depth)
        max_depth = depth;
    calls[count++] = number;
    if (number == SIGUSR1 && count < 3) {
        raise(SIGUSR1);
        pthread_kill(pthread_self(), SIGUSR2);
        calls[count++] = -1;
    }
    depth--;
}

static void look(int number)
{
    (void)number;
    calls[count++] = pthread_equal(pthread_self(), expected) != 0;
    calls[count++] = is_blocked(SIGUSR1);
    calls[count++] = is_blocked(SIGUSR2);
    change(SIG_BLOCK, SIGHUP);
    calls[count++] = is_blocked(SIGHUP);
}

static void handlers(void)
{
    set_action(SIGUSR1, nest, 0, 0);
    set_action(SIGUSR2, nest, 0, 0);
    raise(SIGUSR1);
    report("raised");
    pthread_kill(pthread_self(), SIGUSR1);
    report("killed");
    set_action(SIGUSR1, nest, 0, SIGUSR2);
    raise(SIGUSR1);
    report("blocking");
    set_action(SIGUSR1, nest, SA_NODEFER, 0);
    raise(SIGUSR1);
    report("not deferring");
    set_action(SIGUSR1, look, 0, SIGUSR2);
    expected = pthread_self();
    raise(SIGUSR1);
    report("within");
}

/* ---- Jumps ---- */

static void jump(int number)
{
    siglongjmp(place, number);
}

static void *post(void *unused)
{
    usleep(100);
    sem_post(&done);
    return unused;
}

/* The thread waits as before. */
static void wait_for_post(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, post, NULL);
    sem_wait(&done);
    pthread_join(thread, NULL);
}

static void fail(void)
{
    volatile int *volatile nothing = NULL;
    *nothing = 1; /* NOLINT(clang-analyzer-core.NullDereference): on purpose */
}

static void jump_from(int number, int saves)
{
    for (volatile int i = 0; i < 2; i++) {
        int result = sigsetjmp(place, saves);
        if (!result && number == SIGSEGV)
            fail();
        else if (!result)
            raise(number);
        printf("jumped %d, blocked %d, itself %d\n", result == number, is_blocked(number),
               pthread_equal(pthread_self(), expected) != 0);
        change(SIG_UNBLOCK, number);
        wait_for_post();
    }
}

static void jumps(void)
{
    set_action(SIGUSR1, jump, 0, 0);
    set_action(SIGSEGV, jump, 0, 0);
    jump_from(SIGUSR1, 1);
    jump_from(SIGUSR1, 0);
    jump_from(SIGSEGV, 1);
    change(SIG_BLOCK, SIGUSR2);
    if (!sigsetjmp(place, 1)) {
        change(SIG_UNBLOCK, SIGUSR2);
        change(SIG_BLOCK, SIGHUP);
        siglongjmp(place, 1);
    }
    report("without a handler");
    change(SIG_UNBLOCK, SIGUSR2);
}

/* ---- Writing where nobody reads, by calls that few programs make ---- */

static void write_blocked(const char *name, ssize_t result)
{
    const struct timespec none = {0};
    const sigset_t set = set_of(SIGPIPE);
    int err = errno;
    printf("%s: %zd %s, ", name, result, strerror(err));
    printf("taken %d\n", sigtimedwait(&set, NULL, &none) == SIGPIPE);
}

static void write_pipes(void)
{
    int ends[2], full[2];
    struct iovec part = {"x", 1};
    if (pipe(ends) || pipe(full) || write(full[1], "x", 1) != 1)
        return;
    close(ends[0]);
    change(SIG_BLOCK, SIGPIPE);
    write_blocked("tee", tee(full[0], ends[1], 1, 0));
    write_blocked("vmsplice", vmsplice(ends[1], &part, 1, 0));
    write_blocked("pwritev2", pwritev2(ends[1], &part, 1, -1, 0));
    change(SIG_UNBLOCK, SIGPIPE);
    close(ends[1]);
    close(full[0]);
    close(full[1]);
}

/* ---- What is pending, without waiting ---- */

static void note(int number)
{
    calls[count++] = number;
}

static void polls(void)
{
    struct pollfd nothing = {.fd = -1};
    const struct timespec none = {0};
    const sigset_t empty = {0};
    set_action(SIGUSR2, note, SA_RESTART, 0);
    change(SIG_BLOCK, SIGUSR2);
    raise(SIGUSR2);
    printf("ppoll: %d", ppoll(&nothing, 1, &none, &empty));
    printf(" %s, ppoll: %d\n", strerror(errno), ppoll(&nothing, 1, &none, &empty));
    raise(SIGUSR2);
    printf("pselect: %d", pselect(0, NULL, NULL, NULL, &none, &empty));
    printf(" %s\n", strerror(errno));
    change(SIG_UNBLOCK, SIGUSR2);
    report("handled");
}

/* ---- Programs in place of this one ---- */

static const char command[] = "kill -HUP $$; exit $A";

static void *become(void *way)
{
    char *arguments[] = {"sh", "-c", (char *)command, NULL}, *environment[] = {"A=7", NULL};
    change(SIG_BLOCK, SIGHUP);
    setenv("A", "8", 1);
    switch (*(int *)way) {
    case 0:
        execl("/bin/sh", "sh", "-c", command, NULL);
        break;
    case 1:
        execle("/bin/sh", "sh", "-c", command, NULL, environment);
        break;
    case 2:
        execlp("sh", "sh", "-c", command, NULL);
        break;
    case 3:
        execvp("sh", arguments);
        break;
    default:
        execve("/bin/sh", arguments, environment);
    }
    return NULL;
}

static void programs(void)
{
    int status;
    for (int way = 0; way < 5; way++) {
        pid_t child = fork();
        if (!child) {
            pthread_t thread;
            pthread_create(&thread, NULL, become, &way);
            pthread_join(thread, NULL);
            _exit(1);
        }
        waitpid(child, &status, 0);
        printf("became: %x\n", status);
    }
    change(SIG_BLOCK, SIGHUP);
    printf("failed: %d", execl("/nonexistent/program", "program", NULL));
    printf(" %s, blocked %d\n", strerror(errno), is_blocked(SIGHUP));
    change(SIG_UNBLOCK, SIGHUP);
}

/* ---- A timer's signal to the thread that has made it ---- */

static atomic_int ticks;

static void tick(int number)
{
    ticks += number == SIGUSR1;
}

static void timers(void)
{
    const struct itimerspec times = {{0, 1000000}, {0, 1000000}};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    timer_t timer;
    set_action(SIGUSR1, tick, SA_RESTART, 0);
    event._sigev_un._tid = gettid();
    if (timer_create(CLOCK_MONOTONIC, &event, &timer))
        return;
    timer_settime(timer, 0, &times, NULL);
    while (!ticks)
        usleep(100);
    timer_delete(timer);
    ticks = 0;
}

static void *all(void *unused)
{
    handlers();
    polls();
    timers();
    jumps();
    write_pipes();
    return unused;
}

int main(void)
{
    pthread_t thread;
    setvbuf(stdout, NULL, _IOLBF, 0);
    sem_init(&done, 0, 0);
    signal(SIGPIPE, SIG_DFL);
    all(NULL);
    programs();
    for (int i = 0; i < 4; i++) {
        pthread_create(&thread, NULL, all, NULL);
        pthread_join(thread, NULL);
    }
    return 0;
}
