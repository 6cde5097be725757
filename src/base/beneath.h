/* What openat2 does, on kernels that have none. */
#ifndef GS_BASE_BENEATH_H
#define GS_BASE_BENEATH_H

struct open_how;

/* As openat2 with RESOLVE_BENEATH, and stricter: no symbolic link is followed, and no "..". Returns
 * a descriptor, -EXDEV for what leads elsewhere, or -errno. */
int gs_open_beneath(int dirfd, const char *path, const struct open_how *how);

#endif
