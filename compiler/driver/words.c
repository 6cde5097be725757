#include "compiler/driver/words.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static _Noreturn void fail(void)
{
    fputs("gossamer cc: no memory\n", stderr);
    exit(1);
}

void cc_words_add(struct words *words, const char *word)
{
    if (words->count + 2 > words->room) {
        words->room = words->room ? words->room * 2 : 32;
        words->at = realloc(words->at, words->room * sizeof *words->at);
        if (!words->at)
            fail();
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
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int n = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (n < 0)
        fail();
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
    int status = 0;
    int err = posix_spawnp(&pid, command->at[0], &actions, NULL, command->at, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (err) {
        fprintf(stderr, "gossamer cc: %s: %s\n", command->at[0], strerror(err));
        return 127;
    }
    while (waitpid(pid, &status, 0) < 0)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
