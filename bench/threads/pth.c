/* GNU Pth. */
#include "bench/threads/measure.h"

#include <pth.h>

#define DIVISOR 10 /* divisor of the number of operations, because they are slow */

static void *nothing(void *argument)
{
    return argument;
}

static void *yield_often(void *argument)
{
    for (int i = 0; i < SWITCHES / DIVISOR; i++)
        pth_yield(NULL);
    return argument;
}

static pth_mutex_t mutex = PTH_MUTEX_INIT;
static pth_cond_t changed = PTH_COND_INIT;
static int turn;

static void *take_turns(void *argument)
{
    int mine = argument != NULL;
    for (int i = 0; i < SWITCHES / DIVISOR; i++) {
        pth_mutex_acquire(&mutex, FALSE, NULL);
        while (turn != mine)
            pth_cond_await(&changed, &mutex, NULL);
        turn = !mine;
        pth_cond_notify(&changed, FALSE);
        pth_mutex_release(&mutex);
    }
    return argument;
}

static void measure_both(void *(*fn)(void *))
{
    pth_t a = pth_spawn(PTH_ATTR_DEFAULT, fn, NULL);
    pth_t b = pth_spawn(PTH_ATTR_DEFAULT, fn, &turn);
    begin();
    must(pth_join(a, NULL) && pth_join(b, NULL));
    end(2.0 * SWITCHES / DIVISOR);
}

int main(int argc, char **argv)
{
    const char *figure = argc > 1 ? argv[1] : "";
    must(pth_init());
    for (int round = 0; round < ROUNDS / DIVISOR; round++) {
        if (!strcmp(figure, "switch")) {
            measure_both(yield_often);
        } else if (!strcmp(figure, "turns")) {
            measure_both(take_turns);
        } else if (!strcmp(figure, "spawn")) {
            begin();
            for (int i = 0; i < SPAWNS / DIVISOR; i++)
                must(pth_join(pth_spawn(PTH_ATTR_DEFAULT, nothing, NULL), NULL));
            end((double)SPAWNS / DIVISOR);
        } else {
            return 2;
        }
    }
    printf("%.3f\n", best_ns);
    return 0;
}
