#include "compiler/driver/folders.h"
#include "compiler/driver/words.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *home, *temporary;

int cc_fail(const char *subject, const char *reason)
{
    fprintf(stderr, "gossamer cc: %s: %s\n", subject, reason);
    return 1;
}

const char *cc_home_file(const char *name)
{
    return cc_text("%s/%s", home, name);
}

int cc_find_home(void)
{
    char program[PATH_MAX];
    const char *given = getenv("GOSSAMER_CC_HOME");
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (given && *given) {
        home = cc_text("%s", given);
        return 0;
    }
    if (n < 0)
        return cc_fail("/proc/self/exe", strerror(errno));
    program[n] = 0;
    *strrchr(program, '/') = 0;
    home = cc_text("%s/compiler/home", program);
    if (access(home, F_OK))
        home = cc_text("%s/../lib/gossamer/cc", program);
    return 0;
}

static bool is_in_path(const char *name)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t n = strcspn(path, ":");
        if (!access(cc_text("%.*s/%s", (int)n, path, name), X_OK))
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

int cc_check_installation(void)
{
    if (!is_in_path(CLANG))
        return cc_fail(CLANG, "not found; it is in the Debian package clang-19");
    if (access(cc_home_file("plugin.so"), R_OK))
        return cc_fail("the plugin of clang is missing",
                       "it is built where the Debian package llvm-19-dev is; `make install-cc`"
                       " installs it");
    return 0;
}

const char *cc_own_file(const char *name)
{
    return cc_text("%s/%s", temporary, name);
}

static void remove_temporary(void)
{
    if (!temporary)
        return;
    struct words command = {0};
    cc_words_add(&command, "rm");
    cc_words_add(&command, "-rf");
    cc_words_add(&command, temporary);
    cc_run(&command, NULL);
}

int cc_make_own(void)
{
    const char *folder = getenv("TMPDIR");
    char *path = cc_text("%s/gossamer-cc-XXXXXX", folder && *folder ? folder : "/tmp");
    if (!mkdtemp(path))
        return cc_fail(path, strerror(errno));
    temporary = path;
    return atexit(remove_temporary) ? cc_fail("atexit", "no memory") : 0;
}
