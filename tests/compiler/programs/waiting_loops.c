/* Loops that wait for another thread without a call that waits. */
#include "program.h"

static volatile int stop;
static int is_ready, number;
static atomic_int flag;
static atomic_flag spin = ATOMIC_FLAG_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, held = PTHREAD_MUTEX_INITIALIZER;
static sem_t items;

static void *count(void *unused)
{
    unsigned long rounds = 0;
    while (!stop)
        rounds++;
    return rounds ? unused : NULL;
}

static void *wait_for_flag(void *unused)
{
    while (!atomic_load(&flag))
        ;
    return unused;
}

static __attribute__((noinline)) int value_of(const atomic_int *at)
{
    return atomic_load(at);
}

static __attribute__((noinline)) int is_at_least(const atomic_int *at, int want)
{
    int value = value_of(at);
    return value >= want;
}

/* The loop calls functions that are not inlined. */
static void *ask_for_flag(void *unused)
{
    while (!is_at_least(&flag, 1))
        ;
    do {
    } while (value_of(&flag) < 1);
    return unused;
}

/* It never ends. */
static void *forever(void *unused)
{
    volatile unsigned long rounds = 0;
    for (;;)
        rounds++;
    return unused;
}

static void *poll_with_lock(void *unused)
{
    int seen = 0;
    while (!seen) {
        pthread_mutex_lock(&lock);
        seen = is_ready;
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void *try_lock(void *unused)
{
    while (pthread_mutex_trylock(&held))
        ;
    number++;
    pthread_mutex_unlock(&held);
    while (sem_trywait(&items))
        ;
    return unused;
}

static void *add(void *unused)
{
    for (int i = 0; i < 1000; i++) {
        while (atomic_flag_test_and_set(&spin))
            ;
        int before = number;
        if (i % 100 == 0)
            usleep(1);
        number = before + 1;
        atomic_flag_clear(&spin);
    }
    return unused;
}

/* One gives work to several, which look for it so often before they sleep, and waits until all of
 * it is done. */
enum { HELPERS = 3, ROUNDS = 10, OFTEN = 10000 };
static atomic_ulong pending[HELPERS];

static void *help(void *argument)
{
    atomic_ulong *mine = argument;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < OFTEN && !atomic_load(mine); i++)
            ;
        while (!atomic_load(mine))
            usleep(100);
        atomic_store(mine, 0);
    }
    return argument;
}

static void give_work(void)
{
    pthread_t helpers[HELPERS];
    for (int i = 0; i < HELPERS; i++)
        pthread_create(&helpers[i], NULL, help, &pending[i]);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < HELPERS; i++)
            atomic_store(&pending[i], 1);
        for (;;) {
            unsigned long sum = 0;
            for (int i = 0; i < HELPERS; i++)
                sum += atomic_load(&pending[i]);
            if (!sum)
                break;
        }
    }
    for (int i = 0; i < HELPERS; i++)
        pthread_join(helpers[i], NULL);
    puts("all work is done");
}

/* An error would end the loop, too, and it asks the system something each time. */
static atomic_int is_over;
static void *watch_cpu(void *unused)
{
    while (!atomic_load(&is_over))
        if (sched_getcpu() < 0) {
            puts("no CPU");
            atomic_store(&is_over, 1);
        }
    return unused;
}

/* Only an error ends this one, and it tries locks that are always free. */
static void *use_free_lock(void *unused)
{
    static pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;
    for (;;) {
        if (pthread_mutex_trylock(&mine))
            exit(2);
        number++;
        if (pthread_mutex_unlock(&mine))
            exit(3);
    }
    return unused;
}

/* It goes on until a time, and yields only on one of its ways. */
static void wait_for_time(void)
{
    static volatile char seen[2];
    time_t start = time(NULL);
    while (time(NULL) - start < 20) {
        if (atomic_load(&is_over))
            break;
        seen[0] = 1;
        if (seen[1])
            sched_yield();
    }
    printf("over %d\n", is_over);
}

static void *end_it(void *unused)
{
    atomic_store(&is_over, 2);
    return unused;
}

/* A list whose first entry is locked: whoever walks along it begins again at the same place. This
 * is seen in optimised code only. */
#ifdef __OPTIMIZE__
enum { END = -1, LOCKED = -2 };
static int *next, walked;

static void *walk(void *first)
{
    const int begin = (int)(long)first;
    for (int i = begin; i != END; i = next[i]) {
        if (i == LOCKED) {
            i = begin;
            continue;
        }
        if (i < LOCKED)
            i = -i - 4; /* was removed meanwhile */
        if (i == END)
            break;
        if (__atomic_fetch_add(&walked, 1, __ATOMIC_RELAXED) > 1000000)
            continue;
        __atomic_fetch_sub(&number, 1, __ATOMIC_RELAXED);
    }
    return first;
}
#endif

static void walk_along(void)
{
#ifdef __OPTIMIZE__
    int places[] = {LOCKED, END};
    pthread_t walker;
    next = places;
    pthread_create(&walker, NULL, walk, NULL);
    usleep(2000);
    __atomic_store_n(&places[0], 1, __ATOMIC_RELEASE);
    pthread_join(walker, NULL);
#endif
    puts("the whole list");
}

int main(void)
{
    pthread_t threads[5], adders[3], last;
    void *result;
    sem_init(&items, 0, 0);
    pthread_mutex_lock(&held);
    pthread_create(&threads[0], NULL, count, NULL);
    pthread_create(&threads[1], NULL, wait_for_flag, NULL);
    pthread_create(&threads[2], NULL, poll_with_lock, NULL);
    pthread_create(&threads[3], NULL, try_lock, NULL);
    pthread_create(&threads[4], NULL, ask_for_flag, NULL);
    usleep(2000);
    stop = 1;
    atomic_store(&flag, 1);
    pthread_mutex_lock(&lock);
    is_ready = 1;
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&held);
    sem_post(&items);
    for (int i = 0; i < 5; i++) {
        pthread_join(threads[i], &result);
        printf("%d: %ld\n", i, (long)result);
    }
    for (int i = 0; i < 3; i++)
        pthread_create(&adders[i], NULL, add, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(adders[i], NULL);
    printf("%d\n", number);
    give_work();
    pthread_create(&last, NULL, watch_cpu, NULL);
    usleep(1000);
    atomic_store(&is_over, 1);
    pthread_join(last, NULL);
    atomic_store(&is_over, 0);
    pthread_create(&last, NULL, end_it, NULL);
    wait_for_time();
    pthread_join(last, NULL);
    pthread_create(&last, NULL, use_free_lock, NULL);
    usleep(1000);
    walk_along();
    pthread_create(&last, NULL, forever, NULL);
    usleep(2000);
    puts("ends while a thread computes");
    return 0;
}
