/* Guards against stack overflow. MADV_GUARD_INSTALL (Linux 6.13) costs no mapping; whether it works is found out by touching a
 * guard: that madvise succeeds says little under emulators. mprotect splits mappings, whose number is limited: near the limit, a
 * canary at the end of the stack has to do. */
#include "thread/stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <sys/mman.h>

#define MADV_GUARD_INSTALL_ 102 /* older headers lack it */

/* Mappings that are left to the rest of the program. */
#define MAPPINGS_SPARED 4096

#define CANARY UINT64_C(0x5afe57ac4bad1dea)

enum guard gs_guard_mode;
static long mappings_left = -1;

/* Whether the kernel, asked to read from it, fails. */
static bool is_guarded(const void *page)
{
    int fds[2];
    if (gs_sys_pipe2(fds, O_CLOEXEC | O_NONBLOCK))
        return false;
    ssize_t n = gs_sys_write(fds[1], page, 1);
    gs_sys_close(fds[0]);
    gs_sys_close(fds[1]);
    return n == -EFAULT;
}

static bool install_region(void *page)
{
    return !gs_sys_madvise(page, PAGE_SIZE, MADV_GUARD_INSTALL_);
}

static void read_limit(void)
{
    char text[32] = {0};
    int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
    mappings_left = 65530;
    if (fd >= 0) {
        if (gs_sys_read(fd, text, sizeof text - 1) > 0)
            mappings_left = strtol(text, NULL, 10);
        gs_sys_close(fd);
    }
    mappings_left -= MAPPINGS_SPARED;
}

static bool install_protection(void *page)
{
    if (mappings_left < 0)
        read_limit();
    if (mappings_left < 2)
        return false;
    mappings_left -= 2;
    return !gs_sys_mprotect(page, PAGE_SIZE, PROT_NONE);
}

/* Of the page: the first that an overflow meets. */
static uint64_t *last_word(void *page)
{
    return (uint64_t *)((char *)page + PAGE_SIZE) - 1;
}

static void choose(void *page)
{
    bool may_use = !getenv("GOSSAMER_NO_GUARD_REGIONS");
    gs_guard_mode =
        may_use && install_region(page) && is_guarded(page) ? GUARD_REGIONS : GUARD_MPROTECT;
}

enum guard gs_guard_install(void *page)
{
    if (gs_guard_mode == GUARD_UNKNOWN)
        choose(page);
    if (gs_guard_mode == GUARD_REGIONS && install_region(page))
        return GUARD_REGIONS;
    if (gs_guard_mode != GUARD_CANARY && install_protection(page))
        return GUARD_MPROTECT;
    gs_guard_mode = GUARD_CANARY;
    *(uint64_t *)page = *last_word(page) = CANARY;
    return GUARD_CANARY;
}

bool gs_stacks_is_sound(const struct gs_thread *thread)
{
    if (gs_guard_mode != GUARD_CANARY || thread->stack_class == CLASS_CALLER || !thread->has_canary)
        return true;
    void *page = thread->stack - PAGE_SIZE;
    return *(uint64_t *)page == CANARY && *last_word(page) == CANARY;
}

const char *gs_threads_guard(void)
{
    static const char *const names[] = {
        [GUARD_UNKNOWN] = "none yet",
        [GUARD_REGIONS] = "regions",
        [GUARD_MPROTECT] = "mprotect",
        [GUARD_CANARY] = "canary",
    };
    return names[gs_guard_mode];
}
