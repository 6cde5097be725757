/* The queue between accepting threads and workers. */
#include "serve/connection/two_lock_queue.h"

#include "tests/test.h"

#define THREADS 4
#define VALUES 5000

static struct serve_queue queue;

static struct serve_queue_node *new_node(void)
{
    struct serve_queue_node *node = malloc(sizeof *node);
    if (!node)
        abort();
    return node;
}

static void put(uintptr_t value)
{
    serve_queue_push(&queue, new_node(), (void *)value);
}

/* Returns the value, or 0 if the queue is closed. */
static uintptr_t take(void)
{
    struct serve_queue_node *node = NULL;
    uintptr_t value = (uintptr_t)serve_queue_pop(&queue, &node);
    free(node);
    return value;
}

TEST(what_is_put_first_is_taken_first)
{
    CHECK(!serve_queue_init(&queue));
    for (uintptr_t i = 1; i <= 100; i++)
        put(i);
    CHECK_EQ(serve_queue_length(&queue), 100);
    for (uintptr_t i = 1; i <= 100; i++)
        CHECK_EQ(take(), i);
    CHECK_EQ(serve_queue_length(&queue), 0);
    serve_queue_done(&queue);
}

TEST(a_node_that_was_taken_can_be_reused)
{
    struct serve_queue_node *node = new_node();
    int values[3];
    CHECK(!serve_queue_init(&queue));
    for (int i = 0; i < 1000; i++) {
        serve_queue_push(&queue, node, &values[i % 3]);
        CHECK(serve_queue_pop(&queue, &node) == &values[i % 3]);
    }
    free(node);
    serve_queue_done(&queue);
}

TEST(every_take_from_a_closed_empty_queue_fails)
{
    CHECK(!serve_queue_init(&queue));
    put(7);
    serve_queue_close(&queue, 2);
    CHECK_EQ(take(), 7);
    CHECK_EQ(take(), 0);
    CHECK_EQ(take(), 0);
    serve_queue_done(&queue);
}

static void *wait_for_one(void *ret)
{
    *(uintptr_t *)ret = take();
    return NULL;
}

TEST(take_from_an_empty_queue_waits_for_a_value)
{
    pthread_t threads[THREADS];
    uintptr_t taken[THREADS], sum = 0;
    CHECK(!serve_queue_init(&queue));
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, wait_for_one, &taken[i]), 0);
    for (uintptr_t i = 1; i <= THREADS; i++)
        put(i);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += taken[i];
    }
    CHECK_EQ(sum, THREADS * (THREADS + 1) / 2);
    serve_queue_done(&queue);
}

struct producer {
    pthread_t thread;
    uintptr_t index;
};

struct consumer {
    pthread_t thread;
    uintptr_t last[THREADS]; /* the last value of each producer */
    uint64_t count;
    bool is_in_order;
};

/* Values of different producers differ, and the values of one producer increase. */
static void *produce(void *argument)
{
    const struct producer *producer = argument;
    for (uintptr_t i = 1; i <= VALUES; i++)
        put(i * THREADS + producer->index);
    return NULL;
}

static void *consume(void *argument)
{
    struct consumer *consumer = argument;
    uintptr_t value;
    consumer->is_in_order = true;
    while ((value = take())) {
        consumer->is_in_order &= value > consumer->last[value % THREADS];
        consumer->last[value % THREADS] = value;
        consumer->count++;
    }
    return NULL;
}

TEST(many_producers_and_consumers_lose_nothing_and_preserve_each_producers_order)
{
    static struct producer producers[THREADS];
    static struct consumer consumers[THREADS];
    uint64_t count = 0;
    CHECK(!serve_queue_init(&queue));
    for (uintptr_t i = 0; i < THREADS; i++) {
        producers[i].index = i;
        CHECK_EQ(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
        CHECK_EQ(pthread_create(&consumers[i].thread, NULL, consume, &consumers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(producers[i].thread, NULL);
    serve_queue_close(&queue, THREADS);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(consumers[i].thread, NULL);
        CHECK(consumers[i].is_in_order);
        count += consumers[i].count;
    }
    CHECK_EQ(count, THREADS * VALUES);
    serve_queue_done(&queue);
}
