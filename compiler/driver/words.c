#include "compiler/driver/words.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What was allocated: it is reachable until the process ends. */
static struct kept {
    struct kept *next;
    max_align_t bytes[];
} *all_kept;

static _Noreturn void fail(void)
{
    fputs("gossamer cc: no memory\n", stderr);
    exit(1);
}

void *cc_allocate(size_t size)
{
    struct kept *kept = calloc(1, sizeof *kept + size);
    if (!kept)
        fail();
    kept->next = all_kept;
    all_kept = kept;
    return kept->bytes;
}

void cc_words_add(struct words *words, const char *word)
{
    if (words->count + 2 > words->room) {
        words->room = words->room ? words->room * 2 : 32;
        char **at = cc_allocate(words->room * sizeof *at);
        for (size_t i = 0; i < words->count; i++)
            at[i] = words->at[i];
        words->at = at;
    }
    words->at[words->count++] = (char *)word;
    words->at[words->count] = NULL;
}

void cc_words_add_all(struct words *words, const struct words *others)
{
    for (size_t i = 0; i < others->count; i++)
        cc_words_add(words, others->at[i]);
}

char *cc_text(const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (n < 0)
        fail();
    char *text = cc_allocate((size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}

int cc_run(const struct words *command, const char *output)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (output)
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output,
                                         O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t pid;
    int waited, status;
    int err = posix_spawnp(&pid, command->at[0], &actions, NULL, command->at, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (err) {
        fprintf(stderr, "gossamer cc: %s: %s\n", command->at[0], strerror(err));
        return 127;
    }
    do
        waited = waitpid(pid, &status, 0);
    while (waited < 0 && errno == EINTR);
    return waited == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
