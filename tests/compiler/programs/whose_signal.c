/* A signal of the process is that of a thread which does not block it: its handler sees the
 * variables of that one. And loops of locks that are always free let others run. */
#include "mask.h"
#include "program.h"

enum { THREADS = 4, SIGNALS = 20 };

static _Thread_local int number = -1;
static pthread_key_t key;
static pthread_t threads[THREADS];
static atomic_int handled, mistakes;
static sem_t ready, seen, end;

static void on_signal(int unused)
{
    (void)unused;
    handled++;
    if (number < 0 || !pthread_equal(pthread_self(), threads[number]) ||
        pthread_getspecific(key) != &threads[number])
        mistakes++;
    sem_post(&seen);
}

static void *wait_for_end(void *place)
{
    number = (int)((pthread_t *)place - threads);
    pthread_setspecific(key, place);
    change(SIG_BLOCK, SIGUSR2);
    if (number > 0)
        change(SIG_UNBLOCK, SIGUSR1);
    sem_post(&ready);
    while (sem_wait(&end))
        ;
    return NULL;
}

static void send_signals(void)
{
    const struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    change(SIG_BLOCK, SIGUSR1);
    pthread_key_create(&key, NULL);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, wait_for_end, &threads[i]);
        sem_wait(&ready);
    }
    for (int i = 0; i < SIGNALS; i++) {
        kill(getpid(), SIGUSR1);
        sem_wait(&seen);
    }
    for (int i = 0; i < THREADS; i++)
        sem_post(&end);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("handled %d, mistakes %d\n", handled, mistakes);
}

/* ---- Loops of free locks ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static int is_over, is_read_over;

static void *lock_mutex(void *unused)
{
    int over;
    do {
        pthread_mutex_lock(&mutex);
        over = is_over;
        pthread_mutex_unlock(&mutex);
    } while (!over);
    return unused;
}

static void *lock_for_reading(void *unused)
{
    int over;
    do {
        pthread_rwlock_rdlock(&rwlock);
        over = is_read_over;
        pthread_rwlock_unlock(&rwlock);
    } while (!over);
    return unused;
}

static void run_beside_loops(void)
{
    pthread_t locking, reading;
    pthread_create(&locking, NULL, lock_mutex, NULL);
    usleep(2000);
    pthread_mutex_lock(&mutex);
    is_over = 1;
    pthread_mutex_unlock(&mutex);
    pthread_join(locking, NULL);
    pthread_create(&reading, NULL, lock_for_reading, NULL);
    usleep(2000);
    pthread_rwlock_wrlock(&rwlock);
    is_read_over = 1;
    pthread_rwlock_unlock(&rwlock);
    pthread_join(reading, NULL);
    puts("over");
}

int main(void)
{
    sem_init(&ready, 0, 0);
    sem_init(&seen, 0, 0);
    sem_init(&end, 0, 0);
    run_beside_loops();
    send_signals();
    return 0;
}
