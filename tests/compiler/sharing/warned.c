/* Data that several threads reach without a common lock, in each way that the compiler finds. A
 * name of a variable or member that it is to warn of begins with "bad"; others are right. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SEPARATE __attribute__((noinline))

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;

/* Written by several threads of one kind, without a lock. */
static int bad_plain;

/* Each side has a lock, but not the same. */
static int bad_other_lock;

/* Written while the lock is held for reading only. */
static int bad_read_lock;

/* Volatile is no lock. */
static volatile int bad_flag;

/* A lock that is tried, and not had. */
static int bad_tried, tried;

/* Reached by a pointer that is passed on. */
static int bad_passed;

/* The lock is released before. */
static int bad_late;

static char bad_text[64];

struct shared {
    pthread_mutex_t lock;
    int counted, bad_uncounted;
};

struct job {
    int id, bad_done;
    struct shared *shared;
    struct job *next;
};

static struct job *jobs;

SEPARATE static void add(int *value)
{
    ++*value;
}

SEPARATE static void lock_it(struct shared *shared)
{
    pthread_mutex_lock(&shared->lock);
}

SEPARATE static void unlock_it(struct shared *shared)
{
    pthread_mutex_unlock(&shared->lock);
}

SEPARATE static void try_it(void)
{
    if (pthread_mutex_trylock(&a) == 0) {
        tried++;
        pthread_mutex_unlock(&a);
    } else {
        bad_tried++;
    }
}

static void *work(void *argument)
{
    struct job *job = argument;
    bad_plain++;
    pthread_mutex_lock(&a);
    bad_other_lock++;
    bad_late = 0;
    pthread_mutex_unlock(&a);
    bad_late++;
    pthread_rwlock_rdlock(&rw);
    bad_read_lock++;
    pthread_rwlock_unlock(&rw);
    try_it();
    add(&bad_passed);
    strcpy(bad_text, "text");
    while (!bad_flag)
        sched_yield();
    lock_it(job->shared);
    job->shared->counted++;
    unlock_it(job->shared);
    job->shared->bad_uncounted++;
    job->bad_done = job->id;
    return NULL;
}

int main(void)
{
    struct shared *shared = calloc(1, sizeof *shared);
    pthread_t threads[3];
    int done = 0;
    pthread_mutex_init(&shared->lock, NULL);
    for (int i = 0; i < 3; i++) {
        struct job *job = calloc(1, sizeof *job);
        job->id = i;
        job->shared = shared;
        job->next = jobs;
        jobs = job;
        pthread_create(&threads[i], NULL, work, job);
    }
    pthread_mutex_lock(&b);
    bad_other_lock++;
    pthread_mutex_unlock(&b);
    bad_flag = 1;
    for (struct job *job = jobs; job; job = job->next)
        done += job->bad_done;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return done > 3 || bad_plain < 1 || bad_text[0] != 't';
}
