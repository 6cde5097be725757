#include "serve/operations/poller.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <linux/io_uring.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* The oldest kernel that was measured. Older ones carry out all deferred work of an io_uring before
 * a call returns, and not about 20 requests at a time. */
#define MEASURED_MAJOR 6
#define MEASURED_MINOR 18

#define DISABLED_FILE "/proc/sys/kernel/io_uring_disabled"

/* Open a ring as the loops do. Returns 0 or -errno. */
static int try_setup(void)
{
    struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER |
                                              IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED |
                                              IORING_SETUP_CLAMP};
    int fd = gs_sys_io_uring_setup(1024, &params);
    if (fd < 0)
        return fd;
    gs_sys_close(fd);
    return 0;
}

static int read_disabled(void)
{
    char digits[4] = "";
    int fd = gs_sys_openat(AT_FDCWD, DISABLED_FILE, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    (void)gs_sys_read(fd, digits, sizeof digits - 1);
    gs_sys_close(fd);
    return (int)strtol(digits, NULL, 10);
}

void serve_poller_find_facts(struct serve_poller_facts *ret_facts)
{
    struct utsname name;
    char *end = NULL;
    *ret_facts = (struct serve_poller_facts){
        .setup = try_setup(),
        .disabled = read_disabled(),
        .is_switched_off = getenv("GOSSAMER_NO_IO_URING"),
    };
#ifdef __x86_64__
    ret_facts->is_x86 = true;
#endif
    if (uname(&name))
        return;
    ret_facts->kernel_major = (unsigned)strtoul(name.release, &end, 10);
    if (*end == '.')
        ret_facts->kernel_minor = (unsigned)strtoul(end + 1, NULL, 10);
}

__attribute__((format(printf, 2, 3))) static void explain(struct serve_poller_choice *choice,
                                                          const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(choice->reason, sizeof choice->reason, format, arguments);
    va_end(arguments);
}

/* Why there is no ring. */
static void explain_failure(const struct serve_poller_facts *facts,
                            struct serve_poller_choice *choice)
{
    if (facts->setup == -EPERM && facts->disabled)
        explain(choice, "kernel.io_uring_disabled is %d", facts->disabled);
    else if (facts->setup == -EPERM)
        explain(choice, "io_uring is forbidden, as by a seccomp filter");
    else if (facts->setup == -ENOSYS)
        explain(choice, "the kernel has no io_uring, or a seccomp filter hides it");
    else if (facts->setup == -ENOMEM)
        explain(choice, "there is no memory for io_uring, or RLIMIT_MEMLOCK is too low");
    else
        explain(choice, "io_uring cannot be set up: %s", strerror(-facts->setup));
}

bool serve_poller_choose(const struct serve_arch *arch, const struct serve_poller_facts *facts,
                         struct serve_poller_choice *ret_choice)
{
    bool is_old = facts->kernel_major < MEASURED_MAJOR ||
                  (facts->kernel_major == MEASURED_MAJOR && facts->kernel_minor < MEASURED_MINOR);
    *ret_choice = (struct serve_poller_choice){.poller = "epoll"};
    if (!arch->poller_reason)
        return false;
    if (!arch->is_io_uring_ahead) {
        explain(ret_choice, "%s", arch->poller_reason);
    } else if (facts->is_switched_off) {
        explain(ret_choice, "GOSSAMER_NO_IO_URING is set");
    } else if (facts->setup) {
        explain_failure(facts, ret_choice);
    } else if (is_old) {
        explain(ret_choice, "io_uring was not measured on Linux before %u.%u", MEASURED_MAJOR,
                MEASURED_MINOR);
    } else if (!facts->is_x86) {
        explain(ret_choice, "io_uring was measured on x86-64 only");
    } else {
        ret_choice->poller = "io_uring";
        explain(ret_choice, "%s", arch->poller_reason);
    }
    return true;
}
