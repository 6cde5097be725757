/* Runs of the load generator within a test. */
#ifndef GS_TESTS_LOAD_RUN_H
#define GS_TESTS_LOAD_RUN_H

#include "load/limit.h"
#include "load/run.h"
#include "tests/load/server.h"

#include <gossamer/clock.h>

#include <stdarg.h>

enum { RUN_MOST_WORDS = 32 };

static char run_url[128];

static inline char *run_url_of(const struct server *server)
{
    snprintf(run_url, sizeof run_url,
             server->family == AF_INET6 ? "http://[::1]:%u/" : "http://127.0.0.1:%u/",
             server->port);
    return run_url;
}

/* Run with these words, ending with NULL, and the server's URL. */
static inline struct load_result run_against(const struct server *server, ...)
{
    static char name[] = "load";
    char *argv[RUN_MOST_WORDS + 3] = {name};
    int argc = 1;
    va_list words;
    va_start(words, server);
    for (char *word; argc < RUN_MOST_WORDS && (word = va_arg(words, char *));)
        argv[argc++] = word;
    va_end(words);
    if (server)
        argv[argc++] = run_url_of(server);
    struct load_settings settings;
    struct load_target target;
    struct load_result result;
    CHECK_EQ(gs_load_settings_read(argc, argv, &settings), 0);
    CHECK_EQ(gs_load_limit_check(&settings), 0);
    CHECK_EQ(gs_load_target_init(&target, &settings), 0);
    CHECK_EQ(gs_load_run(&settings, &target, &result), 0);
    gs_load_target_done(&target);
    gs_load_settings_done(&settings);
    return result;
}

/* All errors are of this one kind, and there are so many. */
static inline void check_errors(const struct load_result *result, enum load_error kind,
                                uint64_t count)
{
    for (int i = 0; i < LOAD_ERRORS; i++) {
        uint64_t expected = i == (int)kind ? count : 0;
        if (result->tally.errors[i] != expected)
            TEST_FAIL("%s errors: %llu, expected %llu", gs_load_error_names[i],
                      (unsigned long long)result->tally.errors[i], (unsigned long long)expected);
    }
}

#endif
