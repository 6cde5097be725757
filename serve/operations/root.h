/* The directory that is served. Its path may come to name another directory while the server runs:
 * a deployment replaces a symbolic link, or removes the directory and makes it again. */
#ifndef GS_SERVE_ROOT_H
#define GS_SERVE_ROOT_H

#include <gossamer/api.h>
#include <stdbool.h>

struct serve_root {
    const char *path;
    int fd;        /* keeps its number when the directory changes; -1: not open */
    bool is_fixed; /* the directory stays: the sandbox allows no other */
};

/* Returns 0 or -errno. */
GS_MUST_CHECK int serve_root_open(struct serve_root *root, const char *path);

/* Check that the user that the server now runs as may look up names in the directory. Returns 0 or
 * -errno. */
GS_MUST_CHECK int serve_root_check_access(const struct serve_root *root);

/* If the path names another directory than before, serve that one from now on. If it names none, or
 * one that serve_root_check_access would refuse, or is fixed, the directory stays. May be called by
 * several kernel threads at the same time, and while others open files below the root. */
void serve_root_refresh(const struct serve_root *root);

void serve_root_close(struct serve_root *root);

#endif
