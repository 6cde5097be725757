/* Threads that share nothing without a lock: the compiler has nothing to warn of. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SEPARATE __attribute__((noinline))

enum { Workers = 4, Slots = 8 };

/* Locks in each way. */
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static sem_t one;
static int locked, by_semaphore, read_often, tried;

/* Not shared, or not without order. */
static atomic_int counted;
static _Thread_local int own;
static const int table[4] = {1, 2, 3, 4};
static int settings, results[Workers], sum, early;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int prepared;

/* Each thread has its own element. */
struct job {
    int id, result;
};
static struct job jobs[Workers];

/* A queue hands objects over. */
struct item {
    int value;
    struct item *next;
};
static struct queue {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct item *first, *ring[Slots];
    unsigned head, tail;
    int is_closed;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

/* A lock in each object of a list. */
struct client {
    pthread_mutex_t lock;
    int requests;
    struct client *next;
};
static struct client *clients;

static void prepare(void)
{
    prepared = 1;
}

SEPARATE static void enter(void)
{
    pthread_mutex_lock(&a);
}

SEPARATE static void leave(void)
{
    pthread_mutex_unlock(&a);
}

SEPARATE static void push(struct item *item)
{
    pthread_mutex_lock(&queue.lock);
    item->next = queue.first;
    queue.first = item;
    queue.ring[queue.tail++ % Slots] = NULL;
    pthread_cond_signal(&queue.filled);
    pthread_mutex_unlock(&queue.lock);
}

SEPARATE static struct item *pop(void)
{
    struct item *item;
    pthread_mutex_lock(&queue.lock);
    while (!queue.first && !queue.is_closed)
        pthread_cond_wait(&queue.filled, &queue.lock);
    item = queue.first;
    if (item)
        queue.first = item->next;
    queue.head++;
    pthread_mutex_unlock(&queue.lock);
    return item;
}

SEPARATE static struct item *new_item(int value)
{
    struct item *item = malloc(sizeof *item);
    item->value = value;
    item->next = NULL;
    return item;
}

SEPARATE static void add_client(void)
{
    struct client *client = calloc(1, sizeof *client);
    pthread_mutex_init(&client->lock, NULL);
    client->requests = 1;
    pthread_mutex_lock(&a);
    client->next = clients;
    clients = client;
    pthread_mutex_unlock(&a);
}

SEPARATE static void count_clients(void)
{
    pthread_mutex_lock(&a);
    for (struct client *client = clients; client; client = client->next) {
        pthread_mutex_lock(&client->lock);
        client->requests++;
        pthread_mutex_unlock(&client->lock);
    }
    pthread_mutex_unlock(&a);
}

static void *consume(void *argument)
{
    struct item *item;
    while ((item = pop())) {
        item->value++;
        free(item);
    }
    return argument;
}

static void *work(void *argument)
{
    struct job *job = argument;
    char line[32];
    pthread_once(&once, prepare);
    snprintf(line, sizeof line, "%d", job->id);
    own += table[job->id] + settings + prepared;
    enter();
    locked++;
    leave();
    sem_wait(&one);
    by_semaphore++;
    sem_post(&one);
    if (!pthread_mutex_trylock(&a)) {
        tried++;
        pthread_mutex_unlock(&a);
    }
    pthread_rwlock_wrlock(&rw);
    read_often++;
    pthread_rwlock_unlock(&rw);
    pthread_rwlock_rdlock(&rw);
    own += read_often;
    pthread_rwlock_unlock(&rw);
    counted++;
    results[job->id] = own + line[0];
    job->result = own;
    push(new_item(job->id));
    add_client();
    count_clients();
    return NULL;
}

/* One of its kind, which has ended before the others begin. */
static void *first(void *argument)
{
    early++;
    return argument;
}

int main(void)
{
    pthread_t threads[Workers], consumers[2], only;
    settings = 1;
    sem_init(&one, 0, 1);
    pthread_create(&only, NULL, first, NULL);
    pthread_join(only, NULL);
    early++;
    for (int i = 0; i < Workers; i++) {
        jobs[i].id = i;
        pthread_create(&threads[i], NULL, work, &jobs[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_create(&consumers[i], NULL, consume, NULL);
    for (int i = 0; i < Workers; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_lock(&queue.lock);
    queue.is_closed = 1;
    pthread_cond_broadcast(&queue.filled);
    pthread_mutex_unlock(&queue.lock);
    for (int i = 0; i < 2; i++)
        pthread_join(consumers[i], NULL);
    for (int i = 0; i < Workers; i++)
        sum += jobs[i].result + results[i];
    return locked != Workers || sum == 0 || early != 2 || settings != 1;
}
