#include "serve/connection/two_lock_queue.h"

#include <errno.h>
#include <stdlib.h>

int serve_queue_init(struct serve_queue *queue)
{
    struct serve_queue_node *dummy = malloc(sizeof *dummy);
    if (!dummy)
        return -ENOMEM;
    pthread_mutex_init(&queue->head_lock, NULL);
    pthread_mutex_init(&queue->tail_lock, NULL);
    sem_init(&queue->filled, 0, 0);
    atomic_init(&queue->length, 0);
    atomic_init(&dummy->next, NULL);
    queue->head = queue->tail = dummy;
    return 0;
}

void serve_queue_done(struct serve_queue *queue)
{
    free(queue->head);
    pthread_mutex_destroy(&queue->head_lock);
    pthread_mutex_destroy(&queue->tail_lock);
    sem_destroy(&queue->filled);
}

void serve_queue_push(struct serve_queue *queue, struct serve_queue_node *node, void *value)
{
    node->value = value;
    atomic_store_explicit(&node->next, NULL, memory_order_relaxed);
    atomic_fetch_add_explicit(&queue->length, 1, memory_order_relaxed);
    pthread_mutex_lock(&queue->tail_lock);
    /* Release: pairs with the acquire in serve_queue_pop, publishing the value. */
    atomic_store_explicit(&queue->tail->next, node, memory_order_release);
    queue->tail = node;
    pthread_mutex_unlock(&queue->tail_lock);
    sem_post(&queue->filled);
}

void *serve_queue_pop(struct serve_queue *queue, struct serve_queue_node **ret_node)
{
    void *value = NULL;
    while (sem_wait(&queue->filled))
        ; /* a signal came */
    pthread_mutex_lock(&queue->head_lock);
    struct serve_queue_node *dummy = queue->head;
    struct serve_queue_node *first = atomic_load_explicit(&dummy->next, memory_order_acquire);
    if (first) {
        value = first->value;
        queue->head = first;
    }
    pthread_mutex_unlock(&queue->head_lock);
    if (!first)
        return NULL;
    atomic_fetch_sub_explicit(&queue->length, 1, memory_order_relaxed);
    *ret_node = dummy;
    return value;
}

void serve_queue_close(struct serve_queue *queue, unsigned poppers)
{
    for (unsigned i = 0; i < poppers; i++)
        sem_post(&queue->filled);
}
