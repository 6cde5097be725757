/* Objects that processes share: each is used by several threads of a parent and of a child. */
#include "tests/compat/pthread/program.h"

#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

enum { THREADS = 4, TURNS = 200 };

static struct shared {
    pthread_mutex_t mutex, robust, inherited;
    pthread_cond_t condition;
    pthread_rwlock_t rwlock;
    pthread_barrier_t barrier;
    pthread_spinlock_t spin;
    sem_t semaphore;
    long count, readers;
    atomic_int serial;
} *shared;

static void prepare(void)
{
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pthread_rwlockattr_t rwlock;
    pthread_barrierattr_t barrier;
    int is_shared = -1;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_init(&mutex);
    SHOW(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED));
    SHOW(pthread_mutexattr_getpshared(&mutex, &is_shared));
    SHOW(is_shared);
    SHOW(pthread_mutex_init(&shared->mutex, &mutex));
    SHOW(pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST));
    SHOW(pthread_mutex_init(&shared->robust, &mutex));
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    SHOW(pthread_mutexattr_setprotocol(&mutex, PTHREAD_PRIO_INHERIT));
    SHOW(pthread_mutex_init(&shared->inherited, &mutex));
    pthread_condattr_init(&condition);
    SHOW(pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED));
    SHOW(pthread_cond_init(&shared->condition, &condition));
    pthread_rwlockattr_init(&rwlock);
    SHOW(pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED));
    SHOW(pthread_rwlock_init(&shared->rwlock, &rwlock));
    pthread_barrierattr_init(&barrier);
    SHOW(pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED));
    SHOW(pthread_barrier_init(&shared->barrier, &barrier, 2 * THREADS));
    SHOW(pthread_spin_init(&shared->spin, PTHREAD_PROCESS_SHARED));
    SHOW_ERROR(sem_init(&shared->semaphore, 1, 1));
}

static void add_one(void)
{
    shared->count++;
    pthread_mutex_lock(&shared->mutex);
    pthread_mutex_unlock(&shared->mutex);
}

static void *use_all(void *unused)
{
    for (int i = 0; i < TURNS; i++) {
        pthread_rwlock_wrlock(&shared->rwlock);
        add_one();
        pthread_rwlock_unlock(&shared->rwlock);
        while (sem_wait(&shared->semaphore))
            ;
        pthread_rwlock_rdlock(&shared->rwlock);
        shared->readers++;
        pthread_rwlock_unlock(&shared->rwlock);
        sem_post(&shared->semaphore);
        pthread_spin_lock(&shared->spin);
        pthread_spin_unlock(&shared->spin);
        if (i % 50)
            continue;
        if (pthread_barrier_wait(&shared->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            shared->serial++;
    }
    return unused;
}

static void use_in_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = start(use_all, NULL);
    for (int i = 0; i < THREADS; i++)
        finish(threads[i]);
}

static int in_child(void (*fn)(void))
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        fn();
        fflush(stdout);
        _exit(7);
    }
    if (fn == use_in_threads)
        fn();
    while (waitpid(child, &status, 0) < 0)
        ;
    return status;
}

/* ---- Robust mutexes of a process that ends ---- */

static void *lock_it(void *mutex)
{
    pthread_mutex_lock(mutex);
    return NULL;
}

static void lock_and_end(void)
{
    pthread_mutex_lock(&shared->robust);
}

static void lock_in_thread_and_end(void)
{
    pthread_t thread = start(lock_it, &shared->robust);
    finish(thread);
}

static void *lock_and_stay(void *ready)
{
    pthread_mutex_lock(&shared->robust);
    sem_post(ready);
    pause();
    return NULL;
}

static void end_while_thread_holds(void)
{
    sem_t ready;
    sem_init(&ready, 0, 0);
    start(lock_and_stay, &ready);
    while (sem_wait(&ready))
        ;
}

static void kill_while_thread_holds(void)
{
    end_while_thread_holds();
    kill(getpid(), SIGKILL);
}

static void crash_while_thread_holds(void)
{
    volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    end_while_thread_holds();
    prctl(PR_SET_DUMPABLE, 0); /* no core */
    *page = 1;
}

static void lock_after(void (*fn)(void))
{
    SHOW(in_child(fn));
    int err = pthread_mutex_lock(&shared->robust);
    printf("lock: %s\n", err ? strerrorname_np(err) : "no error");
    if (err == EOWNERDEAD)
        SHOW(pthread_mutex_consistent(&shared->robust));
    SHOW(pthread_mutex_unlock(&shared->robust));
}

/* ---- A process that kills itself while its threads lock ---- */

enum { MANY = 40, LOCKERS = 6, ROUNDS = 4 };

static void *lock_at_random(void *mutexes)
{
    static atomic_uint seeds;
    unsigned seed = ++seeds;
    bool has[MANY] = {false};
    for (;;) {
        pthread_mutex_t *all = mutexes;
        int i = rand_r(&seed) % MANY;
        int err = has[i] ? pthread_mutex_unlock(&all[i]) : pthread_mutex_trylock(&all[i]);
        if (err == EOWNERDEAD)
            pthread_mutex_consistent(&all[i]);
        if (!err || err == EOWNERDEAD)
            has[i] = !has[i];
    }
    return NULL;
}

static void kill_itself(pthread_mutex_t *mutexes)
{
    for (int i = 0; i < LOCKERS; i++)
        start(lock_at_random, mutexes);
    sleep_ms(30);
    kill(getpid(), SIGKILL);
}

static int locked_for_ever(pthread_mutex_t *mutexes)
{
    int count = 0;
    for (int i = 0; i < MANY; i++) {
        const struct timespec deadline = after_ms(CLOCK_REALTIME, 2000);
        int err = pthread_mutex_timedlock(&mutexes[i], &deadline);
        count += err && err != EOWNERDEAD;
    }
    return count;
}

static void test_killed_while_locking(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t *mutexes = mmap(NULL, sizeof(pthread_mutex_t[MANY]), PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    for (int round = 0; round < ROUNDS; round++) {
        int status;
        for (int i = 0; i < MANY; i++)
            pthread_mutex_init(&mutexes[i], &attributes);
        pid_t pid = fork();
        if (!pid)
            kill_itself(mutexes);
        waitpid(pid, &status, 0);
        SHOW(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        SHOW(locked_for_ever(mutexes));
        memset(mutexes, 0, sizeof(pthread_mutex_t[MANY]));
    }
    munmap(mutexes, sizeof(pthread_mutex_t[MANY]));
}

/* ---- Mutexes that another process unlocks ---- */

static pthread_mutex_t *contended;

static void hold_for_a_while(void)
{
    pthread_mutex_lock(contended);
    shared->serial = -1;
    sleep_ms(20);
    pthread_mutex_unlock(contended);
}

static void *lock_and_unlock(void *unused)
{
    while (shared->serial != -1)
        sleep_ms(1);
    long err = pthread_mutex_lock(contended);
    pthread_mutex_unlock(contended);
    (void)unused;
    return (void *)err;
}

static void wait_for_process(pthread_mutex_t *mutex)
{
    pthread_t threads[THREADS];
    contended = mutex;
    shared->serial = 0;
    for (int i = 0; i < THREADS; i++)
        threads[i] = start(lock_and_unlock, NULL);
    SHOW(in_child(hold_for_a_while));
    for (int i = 0; i < THREADS; i++)
        SHOW(finish(threads[i]));
}

/* ---- Conditions and named semaphores between processes ---- */

static void signal_parent(void)
{
    sleep_ms(10);
    pthread_mutex_lock(&shared->mutex);
    shared->count = 1;
    pthread_cond_broadcast(&shared->condition);
    pthread_mutex_unlock(&shared->mutex);
}

static void *wait_for_child(void *unused)
{
    pthread_mutex_lock(&shared->mutex);
    while (!shared->count)
        pthread_cond_wait(&shared->condition, &shared->mutex);
    pthread_mutex_unlock(&shared->mutex);
    return unused;
}

static sem_t *named;

static void post_named(void)
{
    for (int i = 0; i < THREADS; i++) {
        sleep_ms(2);
        sem_post(named);
    }
}

static void *wait_named(void *unused)
{
    while (sem_wait(named))
        ;
    return unused;
}

static void test_signals_between(void)
{
    pthread_t threads[THREADS];
    char name[64];
    int value = -1;
    shared->count = 0;
    for (int i = 0; i < THREADS; i++)
        threads[i] = start(wait_for_child, NULL);
    SHOW(in_child(signal_parent));
    for (int i = 0; i < THREADS; i++)
        finish(threads[i]);
    snprintf(name, sizeof name, "/gossamer-test-%d", getpid());
    named = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    SHOW(named != SEM_FAILED);
    SHOW(sem_open(name, O_CREAT | O_EXCL, 0600, 0) == SEM_FAILED);
    SHOW(sem_open(name, 0) == named);
    for (int i = 0; i < THREADS; i++)
        threads[i] = start(wait_named, NULL);
    SHOW(in_child(post_named));
    for (int i = 0; i < THREADS; i++)
        finish(threads[i]);
    SHOW(sem_getvalue(named, &value));
    SHOW(value);
    SHOW_ERROR(sem_trywait(named));
    struct timespec soon = after_ms(CLOCK_REALTIME, 5);
    SHOW_ERROR(sem_timedwait(named, &soon));
    SHOW_ERROR(sem_close(named));
    SHOW_ERROR(sem_unlink(name));
    SHOW_ERROR(sem_unlink(name));
}

/* ---- System V ---- */

static int queue, set;

static void *receive(void *unused)
{
    struct {
        long type;
        char text[8];
    } message;
    (void)unused;
    return (void *)msgrcv(queue, &message, sizeof message.text, 2, 0);
}

static void *take(void *unused)
{
    struct sembuf operation = {.sem_op = -2};
    (void)unused;
    return (void *)(long)semop(set, &operation, 1);
}

static void send_and_give(void)
{
    const struct {
        long type;
        char text[8];
    } message = {.type = 2};
    struct sembuf operation = {.sem_op = 2};
    sleep_ms(5);
    msgsnd(queue, &message, sizeof message.text, 0);
    semop(set, &operation, 1);
}

static void test_system_v(void)
{
    struct sembuf operation = {.sem_op = -1};
    struct timespec soon = {0, 3000000};
    queue = msgget(IPC_PRIVATE, 0600);
    set = semget(IPC_PRIVATE, 1, 0600);
    semctl(set, 0, SETVAL, 0);
    pthread_t receiver = start(receive, NULL), taker = start(take, NULL);
    SHOW(in_child(send_and_give));
    SHOW(finish(receiver));
    SHOW(finish(taker));
    SHOW_ERROR(semtimedop(set, &operation, 1, &soon));
    receiver = start(receive, NULL);
    sleep_ms(5);
    SHOW_ERROR(msgctl(queue, IPC_RMID, NULL));
    SHOW(finish(receiver));
    SHOW_ERROR(semctl(set, 0, IPC_RMID));
}

int main(void)
{
    prepare();
    SHOW(in_child(use_in_threads));
    SHOW(shared->count);
    SHOW(shared->readers);
    SHOW(shared->serial);
    lock_after(lock_and_end);
    lock_after(lock_in_thread_and_end);
    lock_after(end_while_thread_holds);
    lock_after(kill_while_thread_holds);
    lock_after(crash_while_thread_holds);
    wait_for_process(&shared->mutex);
    wait_for_process(&shared->robust);
    wait_for_process(&shared->inherited);
    test_signals_between();
    test_killed_while_locking();
    test_system_v();
    return 0;
}
