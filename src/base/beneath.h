/* openat2 with RESOLVE_BENEATH for kernels without openat2. */
#ifndef GS_BASE_BENEATH_H
#define GS_BASE_BENEATH_H

struct open_how;

/* Stricter than openat2: all symbolic links and ".." components are refused with -EXDEV. Returns a
 * descriptor or -errno. */
int gs_open_beneath(int dirfd, const char *path, const struct open_how *how);

#endif
