/* Random threads, signals, forks, cancellations and closes. What each thread does follows from the
 * seed, and what comes of it does not depend on the schedule: so it is compared natively and by
 * run, and most of it is also checked here.
 *
 *     program_fuzz [SEED [COUNT]]     runs the seeds from SEED on; without one, 1 and 2 */
#include "tests/compat/pthread/program_fuzz.h"
#include "tests/compat/pthread/program.h"

enum { THREADS = 4, TURNS = 24, TURNS_CHILD = 4, DEPTH_MAX = 2, COUNTERS = 3 };
enum { SECONDS_MAX = 30 };

static const struct fuzz_action *const groups[] = {fuzz_waits, fuzz_descriptors, fuzz_ends,
                                                   fuzz_processes};
static pthread_mutex_t mutexes[COUNTERS];
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static long counters[COUNTERS], written;
static atomic_long queued, received;
static uint64_t current_seed;

uint32_t fuzz_next(struct fuzz *fuzz)
{
    /* SplitMix64 */
    uint64_t z = fuzz->state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (uint32_t)((z ^ (z >> 31)) >> 16);
}

void fuzz_fail(const char *function, int line, const char *expression)
{
    printf("seed %lu: %s:%d: not %s (errno %s)\n", (unsigned long)current_seed, function, line,
           expression, strerrorname_np(errno));
    fflush(stdout);
    _exit(3);
}

/* ---- What all threads share ---- */

static void on_queued(int number)
{
    (void)number;
    atomic_fetch_add(&received, 1);
}

/* A signal for the process interrupts any thread. */
static long signal_the_process(struct fuzz *fuzz)
{
    (void)fuzz;
    atomic_fetch_add(&queued, 1);
    EXPECT(!sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 1}));
    return 0;
}

static long count(struct fuzz *fuzz)
{
    size_t i = fuzz_next(fuzz) % COUNTERS, turns = fuzz_next(fuzz) % 50;
    for (size_t turn = 0; turn < turns; turn++) {
        EXPECT(!pthread_mutex_lock(&mutexes[i]));
        long before = counters[i]++;
        if (turn % 16 == 0)
            sched_yield();
        EXPECT(counters[i] == before + 1);
        EXPECT(!pthread_mutex_unlock(&mutexes[i]));
    }
    return (long)turns;
}

static long read_or_write(struct fuzz *fuzz)
{
    bool is_writer = fuzz_next(fuzz) % 4 == 0;
    EXPECT(!(is_writer ? pthread_rwlock_wrlock(&rwlock) : pthread_rwlock_rdlock(&rwlock)));
    long before = written += is_writer;
    sched_yield();
    EXPECT(written == before);
    EXPECT(!pthread_rwlock_unlock(&rwlock));
    return is_writer;
}

static long compute(struct fuzz *fuzz)
{
    uint32_t turns = fuzz_next(fuzz) % 100000, sum = 0;
    for (uint32_t i = 0; i < turns; i++)
        sum = sum * 31 + i;
    return sum % 1000;
}

static long allocate(struct fuzz *fuzz)
{
    size_t size = 1 + fuzz_next(fuzz) % 300000, at = fuzz_next(fuzz) % size;
    char *bytes = calloc(1, size);
    EXPECT(bytes && !bytes[at]);
    memset(bytes, 1, size);
    free(bytes);
    return (long)size;
}

/* ---- The tree of threads ---- */

static void *thread(void *argument);

static long have_children(struct fuzz *fuzz)
{
    struct fuzz children[3];
    pthread_t threads[3];
    size_t n = fuzz->depth < DEPTH_MAX ? 1 + fuzz_next(fuzz) % 3 : 0;
    long sum = 0;
    for (size_t i = 0; i < n; i++) {
        children[i] = (struct fuzz){fuzz_next(fuzz), fuzz->depth + 1};
        threads[i] = start(thread, &children[i]);
    }
    for (size_t i = 0; i < n; i++)
        sum += finish(threads[i]);
    return sum;
}

static const struct fuzz_action shared[] = {
    {count}, {read_or_write}, {compute}, {allocate}, {have_children}, {signal_the_process}, {0},
};

static size_t length(const struct fuzz_action *actions)
{
    size_t n = 0;
    while (actions[n].perform)
        n++;
    return n;
}

static long perform_any(struct fuzz *fuzz)
{
    /* Half of all is what threads do most; the rest is of a random group. */
    uint32_t choice = fuzz_next(fuzz);
    const struct fuzz_action *actions =
        choice & 1 ? shared : groups[choice / 2 % (sizeof groups / sizeof *groups)];
    size_t n = length(actions);
    return n ? actions[fuzz_next(fuzz) % n].perform(fuzz) : 0;
}

static void *thread(void *argument)
{
    struct fuzz *fuzz = argument;
    long sum = 0, turns = fuzz->depth ? TURNS_CHILD : TURNS;
    for (long i = 0; i < turns; i++)
        sum = sum * 7 % 1000003 + perform_any(fuzz);
    return (void *)sum; // NOLINT(performance-no-int-to-ptr)
}

static void run_seed(uint64_t seed)
{
    struct fuzz fuzzes[THREADS];
    pthread_t threads[THREADS];
    current_seed = seed;
    alarm(SECONDS_MAX);
    for (size_t i = 0; i < THREADS; i++) {
        fuzzes[i] = (struct fuzz){seed * THREADS + i, 0};
        threads[i] = start(thread, &fuzzes[i]);
    }
    for (size_t i = 0; i < THREADS; i++)
        printf("seed %lu: thread %zu: %ld\n", (unsigned long)seed, i, finish(threads[i]));
    while (atomic_load(&received) < atomic_load(&queued))
        sched_yield();
    printf("counters %ld %ld %ld, written %ld, signals %ld\n", counters[0], counters[1],
           counters[2], written, atomic_load(&received));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    uint64_t end = seed + (argc > 2 ? strtoul(argv[2], NULL, 10) : 2);
    struct sigaction action = {.sa_handler = on_queued, .sa_flags = SA_RESTART};
    sigaction(SIGRTMIN + 1, &action, NULL);
    fuzz_start();
    for (size_t i = 0; i < COUNTERS; i++) {
        static const int kinds[COUNTERS] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
                                            PTHREAD_MUTEX_ERRORCHECK};
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_settype(&attributes, kinds[i]);
        pthread_mutex_init(&mutexes[i], &attributes);
    }
    for (; seed < end; seed++)
        run_seed(seed);
    return 0;
}
