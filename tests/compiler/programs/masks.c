/* Which signals each thread blocks, and what is pending for it. */
#include "mask.h"
#include "start.h"

#include <spawn.h>

static atomic_int handled;
static sem_t is_ready, may_end;

static void count(int number)
{
    handled += number != 0;
}

static int is_pending(int number)
{
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, number);
}

/* ---- Masks belong to threads ---- */

static void *look(void *unused)
{
    printf("inherited: %d, %d\n", is_blocked(SIGUSR1), is_blocked(SIGUSR2));
    change(SIG_UNBLOCK, SIGUSR1);
    change(SIG_BLOCK, SIGUSR2);
    printf("changed: %d, %d\n", is_blocked(SIGUSR1), is_blocked(SIGUSR2));
    return unused;
}

static void inheritance(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    change(SIG_BLOCK, SIGUSR1);
    pthread_join(start(look, NULL), NULL);
    printf("kept: %d, %d\n", is_blocked(SIGUSR1), is_blocked(SIGUSR2));
    const sigset_t set = set_of(SIGUSR2);
    pthread_attr_init(&attributes);
    pthread_attr_setsigmask_np(&attributes, &set);
    pthread_create(&thread, &attributes, look, NULL);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    change(SIG_UNBLOCK, SIGUSR1);
    printf("how: %d\n", pthread_sigmask(77, &set, NULL) == EINVAL);
}

/* ---- Signals of the process go to a thread that does not block them ---- */

static void *wait_for_handler(void *unused)
{
    struct pollfd nothing = {.fd = -1};
    sem_post(&is_ready);
    while (!handled)
        poll(&nothing, 1, 1);
    sem_wait(&may_end);
    return unused;
}

static void delivery(void)
{
    handled = 0;
    pthread_t thread = start(wait_for_handler, NULL);
    sem_wait(&is_ready);
    change(SIG_BLOCK, SIGUSR1);
    kill(getpid(), SIGUSR1);
    while (!handled)
        usleep(1000);
    sem_post(&may_end);
    pthread_join(thread, NULL);
    /* Nobody is left who does not block it. */
    kill(getpid(), SIGUSR1);
    printf("handled %d, pending %d\n", (int)handled, is_pending(SIGUSR1));
    change(SIG_UNBLOCK, SIGUSR1);
    printf("handled %d, pending %d\n", (int)handled, is_pending(SIGUSR1));
}

/* A thread that is the last one to block a signal does so at once, on whatever worker it runs. */
static void *block_last(void *unused)
{
    sem_wait(&may_end);
    change(SIG_BLOCK, SIGTERM);
    kill(getpid(), SIGTERM);
    const sigset_t set = set_of(SIGTERM);
    siginfo_t information;
    int number = sigwaitinfo(&set, &information);
    printf("taken: %d, from here: %d\n", number == SIGTERM, information.si_pid == getpid());
    return unused;
}

static void last(void)
{
    for (int i = 0; i < 4; i++) {
        pthread_t thread = start(block_last, NULL);
        change(SIG_BLOCK, SIGTERM);
        sem_post(&may_end);
        pthread_join(thread, NULL);
        change(SIG_UNBLOCK, SIGTERM);
    }
}

static void *suspend(void *unused)
{
    const sigset_t all_but = set_of(SIGUSR2);
    sem_post(&is_ready);
    int result = sigsuspend(&all_but);
    printf("suspended: %d %s, blocked %d\n", result, strerror(errno), is_blocked(SIGUSR1));
    return unused;
}

static void *suspend_in_ppoll(void *unused)
{
    const sigset_t none = set_of(SIGUSR2);
    struct pollfd nothing = {.fd = -1};
    sem_post(&is_ready);
    int result = ppoll(&nothing, 1, NULL, &none);
    printf("ppoll: %d %s, blocked %d\n", result, strerror(errno), is_blocked(SIGUSR1));
    return unused;
}

/* All block it but the one that waits for it. */
static void waits_with_masks(void)
{
    void *(*const fns[])(void *) = {suspend, suspend_in_ppoll};
    change(SIG_BLOCK, SIGUSR1);
    for (int i = 0; i < 2; i++) {
        handled = 0;
        pthread_t thread = start(fns[i], NULL);
        sem_wait(&is_ready);
        kill(getpid(), SIGUSR1);
        pthread_join(thread, NULL);
        printf("handled %d\n", (int)handled);
    }
    change(SIG_UNBLOCK, SIGUSR1);
}

/* ---- Signals to one thread ---- */

static void *keep(void *unused)
{
    change(SIG_BLOCK, SIGUSR1);
    change(SIG_BLOCK, SIGRTMIN);
    sem_post(&is_ready);
    sem_wait(&may_end);
    printf("pending %d, handled %d\n", is_pending(SIGUSR1), (int)handled);
    change(SIG_UNBLOCK, SIGUSR1);
    printf("pending %d, handled %d\n", is_pending(SIGUSR1), (int)handled);
    const sigset_t set = set_of(SIGRTMIN);
    const struct timespec none = {0};
    siginfo_t information;
    while (sigtimedwait(&set, &information, &none) > 0)
        printf("value %d\n", information.si_value.sival_int);
    printf("%s\n", strerror(errno));
    return unused;
}

static void kept(void)
{
    handled = 0;
    pthread_t thread = start(keep, NULL);
    sem_wait(&is_ready);
    pthread_kill(thread, SIGUSR1);
    pthread_kill(thread, SIGUSR1);
    for (int i = 1; i <= 3; i++)
        pthread_sigqueue(thread, SIGRTMIN, (union sigval){.sival_int = i});
    printf("not of others: %d\n", is_pending(SIGUSR1));
    sem_post(&may_end);
    pthread_join(thread, NULL);
}

static void *take(void *unused)
{
    const sigset_t set = set_of(SIGUSR2);
    int number;
    change(SIG_BLOCK, SIGUSR2);
    sem_post(&is_ready);
    printf("sigwait %d, %d\n", sigwait(&set, &number), number == SIGUSR2);
    return unused;
}

static void taken(void)
{
    pthread_t thread = start(take, NULL);
    sem_wait(&is_ready);
    pthread_kill(thread, SIGUSR2);
    pthread_join(thread, NULL);
    change(SIG_BLOCK, SIGUSR2);
    raise(SIGUSR2);
    take(NULL);
    sem_wait(&is_ready);
    change(SIG_UNBLOCK, SIGUSR2);
}

/* Of a program that is started. */
static void *start_program(void *unused)
{
    char *arguments[] = {"sh", "-c", "kill -USR1 $$; exit 7", NULL}, *none[] = {NULL};
    pid_t child;
    int status;
    for (int blocks = 0; blocks < 2; blocks++) {
        posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, none);
        waitpid(child, &status, 0);
        printf("spawned: %x\n", status);
        status = system(arguments[2]);
        printf("system: %x\n", status);
        FILE *file = popen(arguments[2], "r");
        printf("popen: %x\n", pclose(file));
        child = fork();
        if (!child) {
            execve("/bin/sh", arguments, none);
            abort();
        }
        waitpid(child, &status, 0);
        printf("forked: %x\n", status);
        change(SIG_BLOCK, SIGUSR1);
    }
    change(SIG_UNBLOCK, SIGUSR1);
    return unused;
}

static void *all(void *unused)
{
    inheritance();
    waits_with_masks();
    kept();
    taken();
    start_program(NULL);
    return unused;
}

int main(void)
{
    const struct sigaction action = {.sa_handler = count};
    setvbuf(stdout, NULL, _IOLBF, 0);
    sem_init(&is_ready, 0, 0);
    sem_init(&may_end, 0, 0);
    sigaction(SIGUSR1, &action, NULL);
    delivery();
    last();
    all(NULL);
    change(SIG_BLOCK, SIGUSR1);
    pthread_t thread = start(all, NULL);
    pthread_join(thread, NULL);
    return 0;
}
