#include "cli/lab.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INTERPRETER "/.venv/bin/python"
#define PACKAGE "/lab/gossamer_lab"

static int fail(const char *subject, const char *reason)
{
    fprintf(stderr, "gossamer lab: %s: %s\n", subject, reason);
    return 2;
}

/* Find the interpreter of the checkout in whose build directory the program is: of the directories
 * above it, the nearest with the lab. An installed program is in none. */
static bool find_interpreter(const char *program, char *ret_python, size_t n)
{
    char path[PATH_MAX];
    size_t length = strlen(program);
    do {
        while (length && program[length - 1] != '/')
            length--;
        if (!length)
            return false;
        length--;
        if ((size_t)snprintf(path, sizeof path, "%.*s%s", (int)length, program, PACKAGE) >=
            sizeof path)
            return false;
    } while (access(path, F_OK));
    return (size_t)snprintf(ret_python, n, "%.*s%s", (int)length, program, INTERPRETER) < n;
}

int cli_lab_main(int argc, char **argv)
{
    char program[PATH_MAX], found[PATH_MAX];

    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0)
        return fail("/proc/self/exe", strerror(errno));
    program[n] = '\0';
    if (setenv("GOSSAMER_PROGRAM", program, 1))
        return fail("GOSSAMER_PROGRAM", strerror(errno));
    const char *python = getenv("GOSSAMER_PYTHON");
    if (!python || !*python) {
        if (!find_interpreter(program, found, sizeof found))
            return fail("not in a checkout",
                        "run build/release/gossamer there, or set GOSSAMER_PYTHON");
        python = found;
    }
    const char **arguments = calloc((size_t)argc + 3, sizeof *arguments);
    if (!arguments)
        return fail("cannot start Python", strerror(ENOMEM));
    arguments[0] = python;
    arguments[1] = "-m";
    arguments[2] = "gossamer_lab";
    for (int i = 1; i < argc; i++)
        arguments[i + 2] = argv[i];
    execv(python, (char **)arguments);
    int err = errno;
    free(arguments);
    if (err == ENOENT)
        return fail(
            python,
            "Python interpreter not found; run `tools/bootstrap lab` or set GOSSAMER_PYTHON");
    return fail(python, strerror(err));
}
