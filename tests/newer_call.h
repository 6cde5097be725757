/* A hook of gs_sys_set_fault that looks for a system call finds the older ones that the library
 * makes on a kernel without it, such as an emulator's:
 *
 *     opened += stands_for(number, SYS_openat2); */
#ifndef GS_TESTS_NEWER_CALL_H
#define GS_TESTS_NEWER_CALL_H

#include <gossamer/sys.h>

#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>

static inline bool kernel_lacks(const char *name)
{
    const char *lacking;
    for (unsigned i = 0; (lacking = gs_sys_refused(i)); i++)
        if (!strcmp(lacking, name))
            return true;
    return false;
}

static inline bool stands_for(long number, long newer)
{
    static const struct {
        long newer;
        const char *name;
        long older[2];
    } newer_calls[] = {{SYS_openat2, "openat2", {SYS_openat, SYS_openat}},
                       {SYS_epoll_pwait2, "epoll_pwait2", {SYS_epoll_pwait, SYS_epoll_pwait}},
                       {SYS_preadv2, "preadv2", {SYS_preadv, SYS_readv}},
                       {SYS_pwritev2, "pwritev2", {SYS_pwritev, SYS_writev}}};
    for (unsigned i = 0; i < sizeof newer_calls / sizeof *newer_calls; i++) {
        bool is_older = number == newer_calls[i].older[0] || number == newer_calls[i].older[1];
        if (newer_calls[i].newer == newer && (is_older || number == newer))
            return is_older == kernel_lacks(newer_calls[i].name);
    }
    return number == newer;
}

#endif
