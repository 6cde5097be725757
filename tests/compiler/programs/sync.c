/* All kinds of synchronisation. */
#include "program.h"

enum { THREADS = 6, ROUNDS = 50 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_spinlock_t spin;
static sem_t items, room;
static pthread_key_t key;
static int counter, turn, shared, queue[4], put, taken, initialised, spun, destroyed;

static void initialise(void)
{
    usleep(100);
    initialised++;
}

static void destroy(void *value)
{
    pthread_mutex_lock(&lock);
    destroyed += *(int *)value;
    pthread_mutex_unlock(&lock);
}

static void count(void)
{
    pthread_mutex_lock(&lock);
    int before = counter;
    sched_yield();
    counter = before + 1;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&recursive);
    sched_yield();
    pthread_mutex_unlock(&recursive);
    pthread_mutex_unlock(&recursive);
    pthread_spin_lock(&spin);
    spun++;
    pthread_spin_unlock(&spin);
}

static void read_and_write(int i)
{
    pthread_rwlock_rdlock(&rwlock);
    int before = shared;
    sched_yield();
    if (before != shared)
        puts("a writer came in");
    pthread_rwlock_unlock(&rwlock);
    if (i % 5)
        return;
    pthread_rwlock_wrlock(&rwlock);
    before = shared;
    sched_yield();
    shared = before + 1;
    pthread_rwlock_unlock(&rwlock);
}

static void *run(void *argument)
{
    int id = (int)(long)argument;
    static int values[THREADS] = {1, 2, 3, 4, 5, 6};
    pthread_once(&once, initialise);
    pthread_setspecific(key, &values[id]);
    for (int i = 0; i < ROUNDS; i++) {
        count();
        read_and_write(i);
    }
    int result = pthread_barrier_wait(&barrier);
    pthread_mutex_lock(&lock);
    while (turn != id)
        pthread_cond_wait(&changed, &lock);
    printf("turn of %d, value %d\n", id, *(int *)pthread_getspecific(key));
    turn++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return (void *)(long)(result == PTHREAD_BARRIER_SERIAL_THREAD);
}

static void *produce(void *unused)
{
    for (int i = 0; i < 40; i++) {
        sem_wait(&room);
        queue[put++ % 4] = i;
        sem_post(&items);
    }
    return unused;
}

static void *consume(void *unused)
{
    long sum = 0;
    for (int i = 0; i < 40; i++) {
        sem_wait(&items);
        sum = sum * 3 + queue[taken++ % 4];
        sem_post(&room);
    }
    (void)unused;
    return (void *)sum;
}

static struct timespec soon(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += 2000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

static void time_out(void)
{
    sem_t none;
    sem_init(&none, 0, 0);
    struct timespec time = soon();
    pthread_mutex_lock(&lock);
    int late = pthread_cond_timedwait(&changed, &lock, &time);
    pthread_mutex_unlock(&lock);
    printf("condition: %d\n", late == ETIMEDOUT);
    time = soon();
    int result = sem_timedwait(&none, &time);
    printf("semaphore: %d %d\n", result, errno == ETIMEDOUT);
    pthread_mutex_lock(&lock);
    printf("try: %d\n", pthread_mutex_trylock(&lock) == EBUSY);
    pthread_mutex_unlock(&lock);
}

int main(void)
{
    pthread_t threads[THREADS], producer, consumer;
    void *result;
    long serial = 0;
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    pthread_key_create(&key, destroy);
    sem_init(&items, 0, 0);
    sem_init(&room, 0, 4);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    pthread_create(&producer, NULL, produce, NULL);
    pthread_create(&consumer, NULL, consume, NULL);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &result);
        serial += (long)result;
    }
    pthread_join(producer, NULL);
    pthread_join(consumer, &result);
    time_out();
    printf("%d %d %d %d %d %ld %ld\n", counter, shared, spun, initialised, destroyed, serial,
           (long)result);
    return 0;
}
