/* Robust mutexes whose owners end with them: threads, and processes that end or are killed. */
#include "program.h"

enum { LOCKS = 16, THREADS = 4 };

static struct shared {
    pthread_mutex_t locks[LOCKS];
    pthread_mutex_t own; /* robust, but not shared */
} *shared;

static void init(pthread_mutex_t *lock, int scope)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&attributes, scope);
    if (pthread_mutex_init(lock, &attributes))
        abort();
}

static void of_ended_process(void)
{
    pid_t child = fork();
    if (!child) {
        pthread_mutex_lock(&shared->locks[0]);
        pthread_mutex_lock(&shared->own);
        _exit(0);
    }
    siginfo_t ended;
    waitid(P_PID, child, &ended, WEXITED | WNOWAIT);
    printf("lock: %s\n", strerror(pthread_mutex_lock(&shared->locks[0])));
    waitpid(child, NULL, 0);
    printf("consistent %d", pthread_mutex_consistent(&shared->locks[0]));
    printf(", unlock %d\n", pthread_mutex_unlock(&shared->locks[0]));
    printf("destroy %d\n", pthread_mutex_destroy(&shared->own));
}

/* The child's thread does not end with the mutexes of the parent's. */
static void *end_in_child(void *argument)
{
    pthread_mutex_lock(&shared->locks[1]);
    pid_t child = fork();
    if (!child)
        pthread_exit(NULL);
    waitpid(child, NULL, 0);
    printf("in the parent: %s\n", strerror(pthread_mutex_trylock(&shared->locks[1])));
    printf("unlock %d\n", pthread_mutex_unlock(&shared->locks[1]));
    return argument;
}

static void of_parent(void)
{
    pthread_t thread;
    fflush(stdout);
    pthread_create(&thread, NULL, end_in_child, NULL);
    pthread_join(thread, NULL);
}

/* An endless loop that only an error ends, and that never waits: others run, too. */
static void *use_locks(void *argument)
{
    unsigned random = (unsigned)(long)argument;
    char has[LOCKS] = {0};
    for (;;) {
        random = random * 1103515245u + 12345u;
        unsigned i = (random >> 16) % LOCKS;
        int err = has[i] ? pthread_mutex_unlock(&shared->locks[i])
                         : pthread_mutex_trylock(&shared->locks[i]);
        if (err && err != EBUSY) {
            printf("error %d\n", err);
            exit(1);
        }
        if (!err)
            has[i] = !has[i];
    }
}

static void be_killed(void)
{
    pthread_t thread;
    for (long i = 0; i < THREADS; i++)
        pthread_create(&thread, NULL, use_locks, (void *)i);
    usleep(5000);
    kill(getpid(), SIGKILL);
    abort();
}

static void of_killed_process(void)
{
    int status = 0, failed = 0;
    pid_t child = fork();
    if (!child)
        be_killed();
    waitpid(child, &status, 0);
    printf("killed %d\n", WIFSIGNALED(status));
    for (int i = 0; i < LOCKS; i++) {
        int err = pthread_mutex_lock(&shared->locks[i]);
        failed += err && err != EOWNERDEAD;
        failed += err == EOWNERDEAD && pthread_mutex_consistent(&shared->locks[i]);
    }
    for (int i = 0; i < LOCKS; i++)
        failed += pthread_mutex_unlock(&shared->locks[i]) != 0;
    printf("failed %d\n", failed);
}

int main(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    for (int i = 0; i < LOCKS; i++)
        init(&shared->locks[i], PTHREAD_PROCESS_SHARED);
    init(&shared->own, PTHREAD_PROCESS_PRIVATE);
    of_ended_process();
    of_parent();
    of_killed_process();
    return 0;
}
