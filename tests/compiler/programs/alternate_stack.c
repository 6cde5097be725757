/* Handlers on alternate stacks, of which each thread has its own; and the overflow of a stack. */
#include "program.h"

enum { SIZE = 65536 };
static sigjmp_buf place;
static _Thread_local char *lowest;

static int is_alternate(const char *here)
{
    return here >= lowest && here < lowest + SIZE;
}

static void look(int number)
{
    volatile char here = 0;
    stack_t now, none = {.ss_flags = SS_DISABLE};
    sigaltstack(NULL, &now);
    int flags = now.ss_flags, result = number == SIGUSR1 ? sigaltstack(&none, NULL) : 0;
    printf("signal %d: there %d, flags %d, change %d %s\n", number == SIGUSR1,
           is_alternate((char *)&here), flags, result, result ? strerror(errno) : "");
}

static void leave(int number)
{
    volatile char here = 0;
    printf("overflow: there %d\n", is_alternate((char *)&here));
    siglongjmp(place, number);
}

static void set(int number, void (*handler)(int), int flags)
{
    const struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(number, &action, NULL);
}

static void begin(void)
{
    stack_t old, too_small = {.ss_sp = &old, .ss_size = 100};
    lowest = malloc(SIZE);
    const stack_t own = {.ss_sp = lowest, .ss_size = SIZE};
    int result = sigaltstack(&too_small, NULL);
    printf("too small %d %s", result, strerror(errno));
    printf(", set %d", sigaltstack(&own, &old));
    printf(", before %d", old.ss_flags);
    sigaltstack(NULL, &old);
    printf(", now %d %d\n", old.ss_flags, old.ss_sp == lowest && old.ss_size == SIZE);
}

static void end(void)
{
    const stack_t none = {.ss_flags = SS_DISABLE};
    stack_t old;
    printf("disable %d", sigaltstack(&none, NULL));
    sigaltstack(NULL, &old);
    printf(", flags %d\n", old.ss_flags);
    free(lowest);
}

/* Variable arguments: it runs on a stack. */
static void raise_some(int count, ...)
{
    for (int i = 0; i < count; i++)
        raise(SIGUSR1);
    pthread_kill(pthread_self(), SIGUSR2);
}

__attribute__((noinline)) static int recurse(int depth, ...)
{
    volatile char here[1000];
    memset((char *)here, depth, sizeof here);
    return recurse(depth + 1, here[3]) + here[7];
}

static void overflow(int unused, ...)
{
    (void)unused;
    if (!sigsetjmp(place, 1))
        recurse(0);
    puts("left");
}

static void *use(void *argument)
{
    begin();
    raise(SIGUSR1);
    sched_yield();
    raise(SIGUSR1);
    raise(SIGUSR2);
    raise_some(2, 1);
    if (argument)
        overflow(0, 1);
    sched_yield();
    raise_some(1, 1);
    end();
    return argument;
}

static void *have_none(void *unused)
{
    stack_t old;
    sigaltstack(NULL, &old);
    printf("another thread: flags %d\n", old.ss_flags);
    return unused;
}

int main(void)
{
    pthread_t thread;
    set(SIGUSR1, look, SA_ONSTACK);
    set(SIGUSR2, look, 0);
    set(SIGSEGV, leave, SA_ONSTACK);
    setvbuf(stdout, NULL, _IOLBF, 0);
    use(NULL);
    begin();
    kill(getpid(), SIGUSR1);
    pthread_create(&thread, NULL, have_none, NULL);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++) {
        pthread_create(&thread, NULL, use, &thread);
        pthread_join(thread, NULL);
    }
    raise(SIGUSR1);
    end();
    return 0;
}
