/* The main function of a compiled program: starts the workers, and the program's first thread. */
#include "compiler/runtime/libraries/libraries.h"
#include "compiler/runtime/start/stack_size.h"
#include "compiler/runtime/threads/thread.h"

#include <gossamer/own_descriptors.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kernel threads for calls that block. Some may wait for what others do, so a program that has a
 * thread for each needs as many. */
#define POOL 1024

unsigned gs_cc_workers = 1;

/* This is called before the functions by which libraries start: the keys that they create are those
 * of threads of the program, too, and the handlers of forks that they register may wait. */
static void start_before_libraries(void)
{
    if (gs_fork_register())
        abort();
    gs_cc_replace_in_libraries();
}
__attribute__((section(".preinit_array"),
               used)) static void (*before_libraries)(void) = start_before_libraries;

static int argument_count;
static char **arguments, **environment;

static void run_main(void *unused)
{
    (void)unused;
    exit(gs_cc_main(argument_count, arguments, environment));
}

int gs_cc_fflush(FILE *file);
int gs_cc_ftrylockfile(FILE *file);
void gs_cc_funlockfile(FILE *file);

/* At the end of the process, after all functions of the program's: other threads run while the
 * output waits for its reader. */
static void write_rest(void)
{
    const struct thread *self = thread_self();
    if (!self || !self->stack || gs_cc_ftrylockfile(stdout))
        return;
    gs_cc_fflush(stdout);
    gs_cc_funlockfile(stdout);
}

static void *first(void *unused)
{
    if (!gs_cc_first_has_stack)
        return (void *)(intptr_t)gs_cc_main(argument_count, arguments, environment);
    gs_cc_run_first(run_main);
    return unused;
}

static void *start(void *unused)
{
    if (!gs_cc_start_first(first))
        abort();
    return unused;
}

int main(int argc, char **argv, char **envp)
{
    const char *workers = getenv("GOSSAMER_WORKERS");
    long count = workers ? strtol(workers, NULL, 10) : 1;
    gs_cc_workers = count > 0 && count <= INT_MAX ? (unsigned)count : 1;
    argument_count = argc;
    arguments = argv;
    environment = envp;
    /* A program with POSIX threads writes nothing of its own accord: no monitor reports threads
     * that compute for long. */
    const char *dump_signal = getenv("GOSSAMER_DUMP_SIGNAL");
    const struct gs_threads_options options = {
        .workers = gs_cc_workers,
        .stuck_ns = GS_NEVER,
        .max_pool_threads = POOL,
        .dump_signal = dump_signal ? (int)strtol(dump_signal, NULL, 10) : 0};
    gs_own_descriptors_start();
    gs_cc_stack_sizes_start();
    atexit(write_rest);
    int err = gs_threads_run(&options, start, NULL, NULL);
    if (err && err != -EDEADLK)
        fprintf(stderr, "%s: the threads cannot run: %s\n", argv[0], strerror(-err));
    return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
