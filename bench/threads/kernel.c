/* Kernel threads, on one processor. */
#include "bench/threads/measure.h"

#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#define DIVISOR 10 /* divisor of the number of operations, because they are slow */

static void *nothing(void *argument)
{
    return argument;
}

static void *yield_often(void *argument)
{
    for (int i = 0; i < SWITCHES / DIVISOR; i++)
        sched_yield();
    return argument;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

static void *take_turns(void *argument)
{
    int mine = argument != NULL;
    for (int i = 0; i < SWITCHES / DIVISOR; i++) {
        pthread_mutex_lock(&mutex);
        while (turn != mine)
            pthread_cond_wait(&changed, &mutex);
        turn = !mine;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&mutex);
    }
    return argument;
}

static void measure_both(void *(*fn)(void *))
{
    pthread_t a, b;
    begin();
    must(!pthread_create(&a, NULL, fn, NULL) && !pthread_create(&b, NULL, fn, &turn));
    must(!pthread_join(a, NULL) && !pthread_join(b, NULL));
    end(2.0 * SWITCHES / DIVISOR);
}

/* The system calls alone. */
static void measure_transfer(void)
{
    int pair[2];
    char byte = 0;
    must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
    begin();
    for (int i = 0; i < TRANSFERS; i++)
        must(send(pair[0], &byte, 1, MSG_DONTWAIT) == 1 &&
             recv(pair[1], &byte, 1, MSG_DONTWAIT) == 1);
    end(TRANSFERS);
    close(pair[0]);
    close(pair[1]);
}

int main(int argc, char **argv)
{
    const char *figure = argc > 1 ? argv[1] : "";
    for (int round = 0; round < ROUNDS / DIVISOR; round++) {
        pthread_t a;
        if (!strcmp(figure, "switch")) {
            measure_both(yield_often);
        } else if (!strcmp(figure, "turns")) {
            measure_both(take_turns);
        } else if (!strcmp(figure, "spawn")) {
            begin();
            for (int i = 0; i < SPAWNS / DIVISOR; i++)
                must(!pthread_create(&a, NULL, nothing, NULL) && !pthread_join(a, NULL));
            end((double)SPAWNS / DIVISOR);
        } else if (!strcmp(figure, "transfer")) {
            measure_transfer();
        } else {
            return 2;
        }
    }
    printf("%.3f\n", best_ns);
    return 0;
}
