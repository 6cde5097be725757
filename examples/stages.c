/* Words in stages: one is slow about measuring them, the next prints them. What the slow stage's queue does not take is dropped
 * where it is put, and counted. */
#include <gossamer/stage.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct word {
    struct gs_event event;
    size_t length;
    char text[32];
};

static struct gs_stage *print;

static void on_word(struct gs_batch *batch, void *data)
{
    struct gs_event *event;
    (void)data;
    while ((event = gs_batch_take(batch))) {
        struct word *word = (struct word *)event;
        word->length = strlen(word->text);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        (void)!gs_outbox_put(batch->outbox, print, &word->event); /* it has no bound */
    }
}

static void on_measured(struct gs_batch *batch, void *data)
{
    struct gs_event *event;
    unsigned *printed = data;
    for (; (event = gs_batch_take(batch)); ++*printed) {
        struct word *word = (struct word *)event;
        printf("%zu %s\n", word->length, word->text);
        free(word);
    }
}

int main(void)
{
    unsigned printed = 0, dropped = 0;
    struct gs_stage *measure;
    struct word word;
    const struct gs_stage_options printing = {
        .name = "print", .handle = on_measured, .data = &printed, .threads_most = 1};
    const struct gs_stage_options measuring = {.name = "measure",
                                               .handle = on_word,
                                               .threads_most = 8,
                                               .batch_most = 1,
                                               .queue_most = 20,
                                               .controllers = GS_STAGE_THREADS};
    if (gs_stage_new(&printing, &print) || gs_stage_new(&measuring, &measure))
        return 1;
    while (scanf("%31s", word.text) == 1) {
        struct word *copy = malloc(sizeof *copy);
        if (!copy)
            return 1;
        *copy = word;
        if (gs_stage_put(measure, &copy->event)) {
            free(copy);
            dropped++;
        }
    }
    gs_stage_free(measure); /* each handles what it has before it ends */
    gs_stage_free(print);
    printf("%u words, %u dropped\n", printed, dropped);
    return 0;
}
