#include "cli/run.h"

#include "cli/executable.h"
#include "cli/options.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libgossamer_run.so"
enum { REFUSED = 126, NOT_FOUND = 127 };

static uint64_t workers;
static const char *dump_signal, *stack_policy;
static int dump_number;
static bool has_stats, explains, traces, leaves_children, is_unguarded;

static const struct cli_option options[] = {
    {"workers", 'w', "N",
     "kernel threads that run the program's threads (default: one per processor)", CLI_NUMBER,
     &workers, .max = 1000},
    {"no-children", '\0', NULL, "run child programs natively", CLI_FLAG, &leaves_children},
    {"stack-policy", '\0', "POLICY",
     "stacks: guarded (the default), or unguarded for more than 30,000 threads", CLI_TEXT,
     &stack_policy},
    {"dump-signal", '\0', "SIGNAL", "write all threads to standard error on this signal", CLI_TEXT,
     &dump_signal, .group = "Reports"},
    {"stats", '\0', NULL, "print statistics at exit", CLI_FLAG, &has_stats},
    {"explain", '\0', NULL,
     "say whether the program gains, and name the system calls that blocked a kernel thread",
     CLI_FLAG, &explains},
    {"trace", '\0', NULL, "print each emulated system call", CLI_FLAG, &traces},
};
static const struct cli_command command = {
    .name = "gossamer run",
    .operands = "PROGRAM [ARGUMENT...]",
    .summary = "Run the POSIX threads of an unchanged program on user-level threads.",
    .options = options,
    .count = sizeof options / sizeof *options,
    .epilogue =
        "Exit status: the program's; 126 if it cannot be run in this way, 127 if it is not found.",
};

/* Options after the program are the program's. Returns the index of the program. */
static int find_program(int argc, char **argv)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        if (!strcmp(argv[i], "--"))
            return i + 1;
        if (!strcmp(argv[i], "--workers") || !strcmp(argv[i], "-w") ||
            !strcmp(argv[i], "--dump-signal") || !strcmp(argv[i], "--stack-policy"))
            i++;
    }
    return i < argc ? i : argc;
}

/* Faults are of the threads themselves, and some signals are the C library's or the runtime's. */
static bool can_dump(int number)
{
    static const int others[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL,
                                 SIGTRAP, SIGSYS,  32,      33,     64};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (number == others[i])
            return false;
    return number > 0 && number < 64;
}

/* "USR2", "SIGUSR2", "RTMIN+1" or a number. Returns 0 if there is no such signal for a dump. */
static int signal_of(const char *text)
{
    char *end;
    if (!strncasecmp(text, "SIG", 3))
        text += 3;
    bool is_realtime = !strncasecmp(text, "RTMIN", 5);
    long number = strtol(is_realtime ? text + 5 : text, &end, 10);
    if (is_realtime)
        number += SIGRTMIN;
    for (int i = 1; i < SIGRTMIN && *end; i++) {
        const char *name = sigabbrev_np(i);
        if (name && !strcasecmp(name, text))
            return can_dump(i) ? i : 0;
    }
    return !*end && number < 64 && can_dump((int)number) ? (int)number : 0;
}

static int fail(const char *program, const char *reason, int status)
{
    fprintf(stderr, "gossamer run: %s: %s\n", program, reason);
    return status;
}

/* Beside the program in a build directory, or where it is installed. */
static bool find_library(char *ret_path, size_t n)
{
    static const char *const places[] = {"", "../" GS_LIBDIR "/gossamer/"};
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return false;
    self[length] = 0;
    *strrchr(self, '/') = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if ((size_t)snprintf(ret_path, n, "%s/%s%s", self, places[i], LIBRARY) < n &&
            !access(ret_path, R_OK))
            return true;
    }
    return false;
}

/* Put the value before that of the variable, if it has one. */
static int prepend(const char *name, const char *value)
{
    const char *before = getenv(name);
    char *text;
    if (!before || !*before)
        return setenv(name, value, 1) ? -errno : 0;
    if (asprintf(&text, "%s:%s", value, before) < 0)
        return -ENOMEM;
    int err = setenv(name, text, 1) ? -errno : 0;
    free(text);
    return err;
}

static int set_environment(const char *library)
{
    char text[256], dump[32] = "";
    if (dump_number)
        snprintf(dump, sizeof dump, ",dump-signal=%d", dump_number);
    snprintf(text, sizeof text, "workers=%u%s%s%s%s%s%s", (unsigned)workers, dump,
             is_unguarded ? ",unguarded" : "", has_stats ? ",stats" : "",
             explains ? ",explain" : "", traces ? ",trace" : "",
             leaves_children ? ",no-children" : "");
    int err = prepend("LD_PRELOAD", library);
    if (!err)
        err = prepend("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    /* The address sanitizer's library would refuse to be loaded after ours. */
    if (!err)
        err = prepend("ASAN_OPTIONS", "verify_asan_link_order=0");
    return err ? err : (setenv("GOSSAMER_RUN", text, 1) ? -errno : 0);
}

int cli_run_main(int argc, char **argv)
{
    char path[PATH_MAX], library[PATH_MAX];
    int program = find_program(argc, argv), first;
    int err = cli_parse(&command, program < argc ? program : argc, argv, &first);
    if (err)
        return err == CLI_DONE ? 0 : 2;
    if (program >= argc) {
        cli_fail(&command, "no program given (try gossamer run --help)");
        return 2;
    }
    dump_number = dump_signal ? signal_of(dump_signal) : 0;
    if (dump_signal && !dump_number) {
        cli_fail(&command, "--dump-signal: no signal for a dump: %s", dump_signal);
        return 2;
    }
    is_unguarded = stack_policy && !strcmp(stack_policy, "unguarded");
    if (stack_policy && !is_unguarded && strcmp(stack_policy, "guarded") != 0) {
        cli_fail(&command, "--stack-policy: guarded or unguarded, not %s", stack_policy);
        return 2;
    }
    err = cli_executable_find(argv[program], path, sizeof path);
    if (err)
        return fail(argv[program], strerror(-err), err == -EACCES ? REFUSED : NOT_FOUND);
    const char *refusal = cli_executable_refusal(path);
    if (refusal)
        return fail(argv[program], refusal, REFUSED);
    if (!find_library(library, sizeof library))
        return fail(LIBRARY, "not found; it is built for x86-64 only", REFUSED);
    err = set_environment(library);
    if (err)
        return fail(argv[program], strerror(-err), REFUSED);
    execv(path, argv + program);
    return fail(argv[program], strerror(errno), REFUSED);
}
