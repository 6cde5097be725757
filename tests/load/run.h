/* Runs the load generator within the test's process. */
#ifndef GS_TESTS_LOAD_RUN_H
#define GS_TESTS_LOAD_RUN_H

#include "load/run.h"
#include "load/settings.h"
#include "tests/load/server.h"

#include <gossamer/clock.h>

#include <stdarg.h>

enum { RUN_ARGUMENTS_MAX = 32 };

static char run_url[128];

static inline char *run_url_for(const struct server *server)
{
    snprintf(run_url, sizeof run_url,
             server->family == AF_INET6 ? "http://[::1]:%u/" : "http://127.0.0.1:%u/",
             server->port);
    return run_url;
}

static inline struct load_result run_with(const struct server *server, va_list arguments)
{
    static char name[] = "load";
    char *argv[RUN_ARGUMENTS_MAX + 3] = {name};
    int argc = 1;
    for (char *argument; argc < RUN_ARGUMENTS_MAX && (argument = va_arg(arguments, char *));)
        argv[argc++] = argument;
    if (server)
        argv[argc++] = run_url_for(server);
    struct load_settings settings;
    struct load_target target;
    struct load_result result;
    CHECK_EQ(gs_load_settings_read(argc, argv, &settings), 0);
    CHECK_EQ(gs_load_settings_choose_processes(&settings), 0);
    CHECK_EQ(gs_load_target_init(&target, &settings), 0);
    CHECK_EQ(gs_load_run(&settings, &target, &result), 0);
    gs_load_target_done(&target);
    gs_load_settings_done(&settings);
    return result;
}

/* Run with these arguments, terminated by NULL, and the URL of the server unless it is NULL. */
static inline struct load_result run_against(const struct server *server, ...)
{
    va_list arguments;
    va_start(arguments, server);
    struct load_result result = run_with(server, arguments);
    va_end(arguments);
    return result;
}

/* Run with these arguments, terminated by NULL, against a server that runs meanwhile. */
static inline struct load_result run_beside(serve_fn *serve, ...)
{
    struct server server;
    server_start(&server, serve);
    va_list arguments;
    va_start(arguments, serve);
    struct load_result result = run_with(&server, arguments);
    va_end(arguments);
    server_stop(&server);
    return result;
}

/* Check that there are exactly `count` errors, all of this kind. */
static inline void check_errors(const struct load_result *result, enum load_error kind,
                                uint64_t count)
{
    for (int i = 0; i < LOAD_ERROR_KINDS; i++) {
        uint64_t expected = i == (int)kind ? count : 0;
        if (result->metrics.errors[i] != expected)
            TEST_FAIL("%s errors: %llu, expected %llu", gs_load_error_names[i],
                      (unsigned long long)result->metrics.errors[i], (unsigned long long)expected);
    }
}

#endif
