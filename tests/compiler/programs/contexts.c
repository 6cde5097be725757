/* Contexts (ucontext.h): coroutines that wait, within a thread and by one thread after another. */
#include "program.h"

#include <ucontext.h>

#define COROUTINES 3
#define THREADS 4
#define STACK ((size_t)64 << 10)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int total;
static _Thread_local int steps_of_thread;

struct coroutine {
    ucontext_t own, caller;
    int steps;
    int is_over;
    char stack[STACK];
};

/* A pointer in two arguments. */
static void run_steps(unsigned low, unsigned high)
{
    struct coroutine *coroutine = (struct coroutine *)((uintptr_t)high << 32 | low);
    for (int i = 0; i < coroutine->steps; i++) {
        steps_of_thread++;
        usleep(10);
        pthread_mutex_lock(&mutex);
        total++;
        pthread_mutex_unlock(&mutex);
        swapcontext(&coroutine->own, &coroutine->caller);
    }
    coroutine->is_over = 1;
}

static struct coroutine *new_coroutine(int steps)
{
    struct coroutine *coroutine = calloc(1, sizeof *coroutine);
    uintptr_t address = (uintptr_t)coroutine;
    coroutine->steps = steps;
    getcontext(&coroutine->own);
    coroutine->own.uc_stack.ss_sp = coroutine->stack;
    coroutine->own.uc_stack.ss_size = STACK;
    coroutine->own.uc_link = &coroutine->caller;
    makecontext(&coroutine->own, (void (*)(void))run_steps, 2, (unsigned)address,
                (unsigned)(address >> 32));
    return coroutine;
}

static void *run_coroutines(void *argument)
{
    struct coroutine *coroutines[COROUTINES];
    int left = COROUTINES;
    for (int i = 0; i < COROUTINES; i++)
        coroutines[i] = new_coroutine(i + 2 + (int)(long)argument);
    while (left) {
        left = 0;
        for (int i = 0; i < COROUTINES; i++) {
            if (coroutines[i]->is_over)
                continue;
            swapcontext(&coroutines[i]->caller, &coroutines[i]->own);
            left += !coroutines[i]->is_over;
        }
        usleep(1);
    }
    for (int i = 0; i < COROUTINES; i++)
        free(coroutines[i]);
    return (void *)(long)steps_of_thread;
}

/* ---- Two threads continue the same coroutine in turn ---- */

static struct coroutine *shared;
static sem_t turns[2];

static void *continue_shared(void *argument)
{
    long number = (long)argument;
    for (int i = 0; i < 3; i++) {
        sem_wait(&turns[number]);
        swapcontext(&shared->caller, &shared->own);
        sem_post(&turns[!number]);
    }
    return NULL;
}

/* ---- Without other functions that wait ---- */

static void *repeat(void *unused)
{
    volatile int count = 0;
    ucontext_t here;
    (void)unused;
    getcontext(&here);
    count++;
    if (count < 5)
        setcontext(&here);
    return (void *)(long)count;
}

static void *wait_in_context(void *unused)
{
    ucontext_t context, caller;
    char *stack = malloc(STACK);
    (void)unused;
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = STACK;
    context.uc_link = &caller;
    makecontext(&context, (void (*)(void))usleep, 1, 100);
    swapcontext(&caller, &context);
    free(stack);
    return (void *)7L;
}

static void join_all(pthread_t *threads, int count)
{
    for (int i = 0; i < count; i++) {
        void *result;
        pthread_join(threads[i], &result);
        printf("%ld\n", (long)result);
    }
}

int main(void)
{
    static void *(*const others[])(void *) = {repeat, wait_in_context};
    pthread_t threads[THREADS];
    printf("first %ld\n", (long)run_coroutines(NULL));
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run_coroutines, (void *)i);
    join_all(threads, THREADS);
    shared = new_coroutine(5);
    sem_init(&turns[0], 0, 1);
    sem_init(&turns[1], 0, 0);
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, continue_shared, (void *)i);
    join_all(threads, 2);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, others[i], NULL);
    join_all(threads, 2);
    printf("total %d, over %d\n", total, shared->is_over);
    free(shared);
    return 0;
}
