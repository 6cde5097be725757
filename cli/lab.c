#include "cli/lab.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "gossamer lab: %s: %s\n", what, why);
    return 2;
}

int cli_lab_main(int argc, char **argv)
{
    char program[PATH_MAX];

    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0)
        return fail("/proc/self/exe", strerror(errno));
    program[n] = '\0';
    if (setenv("GOSSAMER_PROGRAM", program, 1))
        return fail("GOSSAMER_PROGRAM", strerror(errno));
    const char *chosen = getenv("GOSSAMER_PYTHON");
    const char *python = chosen && *chosen ? chosen : GS_LAB_PYTHON;
    const char **words = calloc((size_t)argc + 3, sizeof *words);
    if (!words)
        return fail("words", strerror(ENOMEM));
    words[0] = python;
    words[1] = "-m";
    words[2] = "gossamer_lab";
    for (int i = 1; i < argc; i++)
        words[i + 2] = argv[i];
    execv(python, (char **)words);
    int err = errno;
    free(words);
    if (err == ENOENT)
        return fail(python, "no such Python; `make setup` makes it, or set GOSSAMER_PYTHON");
    return fail(python, strerror(err));
}
