/* A loop that copies many variables to each other in many places: compiling it takes no longer for
 * that. */
#include <pthread.h>
#include <stdio.h>

enum { PLACES = 12, VARIABLES = 10 };

static int asked, last_place;

static __attribute__((noinline)) int next_place(void)
{
    return asked++ % (PLACES * (VARIABLES - 1));
}

/* clang-format off */
#define COPY(to, from, place) \
    case (to) * PLACES + (place): x##to = x##from; last_place = (place); break;
#define COPIES(to, from) \
    COPY(to, from, 0) COPY(to, from, 1) COPY(to, from, 2) COPY(to, from, 3) \
    COPY(to, from, 4) COPY(to, from, 5) COPY(to, from, 6) COPY(to, from, 7) \
    COPY(to, from, 8) COPY(to, from, 9) COPY(to, from, 10) COPY(to, from, 11)

/* What was put into the last variable gets into the first one in so many rounds. */
static void *copy(void *unused)
{
    int x0 = 0, x1 = 0, x2 = 0, x3 = 0, x4 = 0, x5 = 0, x6 = 0, x7 = 0, x8 = 0, x9 = 3;
    while (x0 != 3) {
        switch (next_place()) {
            COPIES(0, 1) COPIES(1, 2) COPIES(2, 3) COPIES(3, 4) COPIES(4, 5)
            COPIES(5, 6) COPIES(6, 7) COPIES(7, 8) COPIES(8, 9)
        }
    }
    printf("copied after %d places, the last one %d\n", asked, last_place);
    return unused;
}
/* clang-format on */

int main(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, copy, NULL) || pthread_join(thread, NULL))
        return 1;
    return asked != PLACES * (VARIABLES - 1) * (VARIABLES - 2) + 1;
}
