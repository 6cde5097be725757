/* What sanitizers look at: memory that threads share, guarded in each way; what each keeps for
 * itself; signals, children and cancellation. It is also built with the address sanitizer. */
#include "tests/compat/pthread/program.h"

enum { THREADS = 8, ROUNDS = 50 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_key_t key;
static sem_t semaphore;
static long by_mutex, by_lock, by_semaphore, by_barrier, by_pipe, turn, freed;
static int ends[2];
static atomic_int handled;

static void free_value(void *value)
{
    pthread_mutex_lock(&mutex);
    freed++;
    pthread_mutex_unlock(&mutex);
    free(value);
}

static void take_turn(long number)
{
    pthread_mutex_lock(&mutex);
    while (turn != number)
        pthread_cond_wait(&condition, &mutex);
    turn = (number + 1) % THREADS;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
}

/* A byte in the pipe is the right to change by_pipe. */
static void change_by_pipe(void)
{
    char byte;
    if (read(ends[0], &byte, 1) == 1)
        by_pipe++;
    (void)!write(ends[1], &byte, 1);
}

static void *share(void *argument)
{
    pthread_setspecific(key, malloc(16));
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        by_mutex++;
        pthread_mutex_unlock(&mutex);
        pthread_rwlock_wrlock(&lock);
        by_lock++;
        pthread_rwlock_unlock(&lock);
        sem_wait(&semaphore);
        by_semaphore++;
        sem_post(&semaphore);
        take_turn((long)argument);
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            by_barrier++;
        pthread_barrier_wait(&barrier);
        change_by_pipe();
    }
    return NULL;
}

static void *wait_to_be_canceled(void *unused)
{
    pthread_cleanup_push(free, malloc(64));
    while (true)
        pause();
    pthread_cleanup_pop(0);
    return unused;
}

static void handle(int number)
{
    (void)number;
    handled++;
}

static void *signal_itself(void *unused)
{
    for (int i = 0; i < ROUNDS; i++)
        pthread_kill(pthread_self(), SIGUSR1);
    return unused;
}

static void share_all(void)
{
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        threads[i] = start(share, (void *)i);
    for (int i = 0; i < THREADS; i++)
        finish(threads[i]);
    SHOW(by_mutex);
    SHOW(by_lock);
    SHOW(by_semaphore);
    SHOW(by_barrier);
    SHOW(by_pipe);
    SHOW(freed);
}

int main(void)
{
    struct sigaction action = {.sa_handler = handle};
    int status = 0;
    pthread_key_create(&key, free_value);
    pthread_barrier_init(&barrier, NULL, THREADS);
    sem_init(&semaphore, 0, 1);
    if (pipe(ends) || write(ends[1], "x", 1) != 1)
        return 1;
    share_all();
    pthread_t thread = start(wait_to_be_canceled, NULL);
    SHOW(pthread_cancel(thread));
    SHOW(finish(thread) == (long)PTHREAD_CANCELED);
    sigaction(SIGUSR1, &action, NULL);
    finish(start(signal_itself, NULL));
    SHOW(handled);
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        _exit(7);
    waitpid(child, &status, 0);
    SHOW(WEXITSTATUS(status));
    return 0;
}
