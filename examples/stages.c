/* A pipeline of two stages: the first measures words slowly, the second prints them. Words that do
 * not fit in the queue of the first stage are dropped and counted. */
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
    while ((event = gs_batch_next(batch))) {
        struct word *word = (struct word *)event;
        word->length = strlen(word->text);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        /* Cannot fail: the queue of `print` is unbounded. */
        (void)!gs_outbox_add(batch->outbox, print, &word->event);
    }
}

static void on_measured(struct gs_batch *batch, void *data)
{
    struct gs_event *event;
    unsigned *printed = data;
    for (; (event = gs_batch_next(batch)); ++*printed) {
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
        .name = "print", .handle = on_measured, .data = &printed, .max_threads = 1};
    const struct gs_stage_options measuring = {.name = "measure",
                                               .handle = on_word,
                                               .max_threads = 8,
                                               .max_batch = 1,
                                               .max_queue = 20,
                                               .controllers = GS_STAGE_THREADS};
    if (gs_stage_new(&printing, &print) || gs_stage_new(&measuring, &measure))
        return 1;
    while (scanf("%31s", word.text) == 1) {
        struct word *copy = malloc(sizeof *copy);
        if (!copy)
            return 1;
        *copy = word;
        if (gs_stage_enqueue(measure, &copy->event)) {
            free(copy);
            dropped++;
        }
    }
    gs_stage_free(measure); /* returns once the stage has handled all its events */
    gs_stage_free(print);
    printf("%u words, %u dropped\n", printed, dropped);
    return 0;
}
