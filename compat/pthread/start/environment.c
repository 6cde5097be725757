/* Children run under this library if their environment names it; a program may remove that. */
#include "compat/pthread/start/environment.h"

#include "compat/pthread/threads/task.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The variables of a child: the library, the options, and that the C library shall not register
 * restartable sequences, which the kernel would watch in a worker's place. The address sanitizer is
 * to accept that our library is loaded before its own. */
enum { PRELOAD, OPTIONS, TUNABLES, SANITIZER, VARIABLES };
static const char *const names[VARIABLES] = {
    "LD_PRELOAD=", "GOSSAMER_RUN=", "GLIBC_TUNABLES=", "ASAN_OPTIONS="};
#define VALUE_MAX 4096
static char values[VARIABLES][VALUE_MAX]; /* with the names; empty: not set */

static bool has_prefix(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

static const char *find(char *const *environment, const char *name)
{
    for (; environment && *environment; environment++)
        if (has_prefix(*environment, name))
            return *environment;
    return NULL;
}

static bool has_word(const char *options, const char *word)
{
    const char *at = options ? strstr(options, word) : NULL;
    return at != NULL;
}

/* Leaves what the variables had before `gossamer run`, which has put its value before theirs. */
static void withdraw_from_environment(void)
{
    for (unsigned i = 0; i < VARIABLES; i++) {
        char name[32];
        size_t n = strlen(names[i]) - 1;
        const char *value = values[i] + n + 1;
        if (!*values[i])
            continue;
        memcpy(name, names[i], n);
        name[n] = 0;
        const char *rest = strchr(value, ':');
        if (rest && i != OPTIONS)
            setenv(name, rest + 1, true);
        else
            unsetenv(name);
    }
}

void gs_environment_start(void)
{
    for (unsigned i = 0; i < VARIABLES; i++) {
        const char *value = find(environ, names[i]);
        if (value && strlen(value) < VALUE_MAX)
            memcpy(values[i], value, strlen(value) + 1);
    }
    const char *options = values[OPTIONS];
    const char *workers = strstr(options, "workers=");
    gs_run.workers = workers ? (unsigned)strtoul(workers + strlen("workers="), NULL, 10) : 0;
    const char *dump_signal = strstr(options, "dump-signal=");
    if (dump_signal)
        gs_run.dump_signal = (int)strtol(dump_signal + strlen("dump-signal="), NULL, 10);
    gs_run.has_stats = has_word(options, "stats");
    gs_run.is_unguarded = has_word(options, "unguarded");
    gs_run.explains = has_word(options, "explain");
    gs_run.traces = has_word(options, "trace");
    gs_run.leaves_children = has_word(options, "no-children");
    if (gs_run.leaves_children)
        withdraw_from_environment();
}

/* Returns the library's path, as the preloading names it first. */
static bool is_preloaded(const char *value)
{
    return value && has_prefix(value, values[PRELOAD]);
}

char **gs_environment_for_child(char *const *environment)
{
    size_t count = 0, n = 0;
    if (gs_run.leaves_children || !*values[PRELOAD] ||
        is_preloaded(find(environment, names[PRELOAD])))
        return NULL;
    while (environment && environment[count])
        count++;
    char **changed = calloc(count + VARIABLES + 1, sizeof *changed);
    if (!changed)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        bool is_ours = false;
        for (unsigned k = 0; k < VARIABLES; k++)
            is_ours |= *values[k] && has_prefix(environment[i], names[k]);
        if (!is_ours)
            changed[n++] = environment[i];
    }
    for (unsigned k = 0; k < VARIABLES; k++)
        if (*values[k])
            changed[n++] = values[k];
    return changed;
}

void gs_environment_free(char **environment)
{
    free(environment);
}
