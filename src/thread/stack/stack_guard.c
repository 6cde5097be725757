/* Guards against stack overflow. MADV_GUARD_INSTALL (Linux 6.13) needs no mapping; whether it works
 * is determined by accessing a guard, since under emulators madvise may succeed without effect.
 * mprotect splits mappings, whose number is limited: near the limit, a canary at the end of the
 * stack is used. */
#include "thread/stack/stack_class.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <sys/mman.h>

#define MADV_GUARD_INSTALL_ 102 /* older headers lack it */

/* Mappings that are reserved for the rest of the program. */
#define RESERVED_MAPPINGS 4096

#define CANARY UINT64_C(0x5afe57ac4bad1dea)

enum guard gs_guard_mode;
static long mappings_left = -1;

/* Whether a system call that reads from the page fails. */
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

static bool install_region(void *pages, size_t size)
{
    return !gs_sys_madvise(pages, size, MADV_GUARD_INSTALL_);
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
    mappings_left -= RESERVED_MAPPINGS;
}

/* Pages that become inaccessible split a mapping into three. The caller holds the lock of the
 * classes. */
static bool take_mappings(void)
{
    if (mappings_left < 0)
        read_limit();
    if (mappings_left < 2)
        return false;
    mappings_left -= 2;
    return true;
}

static bool install_protection(void *pages, size_t size)
{
    return take_mappings() && !gs_sys_mprotect(pages, size, PROT_NONE);
}

/* The word of the page that an overflow overwrites first. */
static uint64_t *last_word(void *page)
{
    return (uint64_t *)((char *)page + gs_page_size) - 1;
}

static void choose_mode(void *pages, size_t size)
{
    bool is_allowed = !getenv("GOSSAMER_NO_GUARD_REGIONS");
    bool has_regions = is_allowed && install_region(pages, size) && is_guarded(pages);
    gs_guard_mode = has_regions ? GUARD_REGIONS : GUARD_MPROTECT;
}

enum guard gs_guard_install(void *pages, size_t size)
{
    if (gs_guard_mode == GUARD_UNKNOWN)
        choose_mode(pages, size);
    if (gs_guard_mode == GUARD_REGIONS && install_region(pages, size))
        return GUARD_REGIONS;
    if (gs_guard_mode != GUARD_CANARY && install_protection(pages, size))
        return GUARD_MPROTECT;
    void *page = (char *)pages + size - gs_page_size;
    gs_guard_mode = GUARD_CANARY;
    *(uint64_t *)page = *last_word(page) = CANARY;
    return GUARD_CANARY;
}

bool gs_stacks_is_canary_intact(const struct gs_thread *thread)
{
    void *page = gs_stack_bottom(thread) - gs_page_size;
    return *(uint64_t *)page == CANARY && *last_word(page) == CANARY;
}

const char *gs_threads_stack_guard(void)
{
    static const char *const names[] = {
        [GUARD_UNKNOWN] = "none yet",
        [GUARD_REGIONS] = "regions",
        [GUARD_MPROTECT] = "mprotect",
        [GUARD_CANARY] = "canary",
    };
    return names[gs_guard_mode];
}

#ifdef GS_CHECKED
/* With a guard of inaccessible pages below, the stack takes no more mappings than that. */
static bool needs_mappings(const struct gs_thread *thread)
{
    return gs_guard_mode == GUARD_REGIONS || thread->has_canary;
}

bool gs_guard_take_mappings(const struct gs_thread *thread)
{
    spin_lock_always(&gs_stack_classes_lock);
    bool is_possible = !needs_mappings(thread) || take_mappings();
    spin_unlock_always(&gs_stack_classes_lock);
    return is_possible;
}

void gs_guard_return_mappings(const struct gs_thread *thread)
{
    spin_lock_always(&gs_stack_classes_lock);
    mappings_left += needs_mappings(thread) ? 2 : 0;
    spin_unlock_always(&gs_stack_classes_lock);
}
#endif
