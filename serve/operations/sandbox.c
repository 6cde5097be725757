#include "serve/operations/sandbox.h"

#include "serve/arch/arch.h"
#include "serve/log/error_log.h"
#include "serve/operations/landlock.h"
#include "serve/operations/privileges.h"
#include "serve/operations/seccomp.h"
#include "serve/operations/server.h"
#include "src/base/sanitized.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <link.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

/* In programs that are built to measure coverage. */
extern const char coverage_of_gcc[] __asm__("__gcov_init") __attribute__((weak));
extern const char coverage_of_clang[] __asm__("__llvm_profile_runtime") __attribute__((weak));

/* ---- Whether it can hold ---- */

/* /proc/self/task has a directory for each thread. */
static bool has_threads(void)
{
    struct stat status;
    return !gs_sys_fstatat(AT_FDCWD, "/proc/self/task", &status, 0) && status.st_nlink > 3;
}

/* Why the program needs more than the server does; NULL: it does not. */
static const char *why_not(const struct serve_server *server)
{
    if (GS_ASAN || GS_TSAN)
        return "the program is built with a sanitizer";
    if (coverage_of_gcc || coverage_of_clang)
        return "the program is built to measure coverage";
    if (has_threads())
        return "the process has other threads already";
    if (server->options->sandbox != SERVE_SANDBOX_ON && getenv("LD_PRELOAD"))
        return "LD_PRELOAD is set, and foreign code may need more";
    return NULL;
}

static int report_lack(const struct serve_server *server, const char *what, const char *why)
{
    if (server->options->sandbox == SERVE_SANDBOX_ON) {
        serve_error("--sandbox on: %s: %s", what, why);
        return -EOPNOTSUPP;
    }
    serve_info("%s: %s", what, why);
    return 0;
}

/* ---- Files ---- */

/* What reports of stuck threads and of stack overflows read: the symbols of the program. */
static int allow_module(struct dl_phdr_info *info, size_t size, void *landlock)
{
    (void)size;
    serve_landlock_allow(landlock, info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe",
                         SERVE_MAY_READ);
    return 0;
}

/* The directory stays open: so it is the same one for the kernel as long as the process runs. With
 * metrics, the server's other processes are looked at, too; the kernel shows of foreign ones only
 * what is no secret. */
static void allow_proc(struct serve_landlock *landlock, struct serve_server *server)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC};
    const struct serve_arch *arch = server->options->arch;
    static const char *const of_libraries[] = {"/proc/sys/vm/max_map_count",
                                               "/proc/sys/vm/overcommit_memory",
                                               "/sys/devices/system/cpu/online"};
    for (size_t i = 0; i < sizeof of_libraries / sizeof *of_libraries; i++)
        serve_landlock_allow(landlock, of_libraries[i], SERVE_MAY_READ);
    if (server->options->metrics && arch->has_processes) {
        serve_landlock_allow(landlock, "/proc", SERVE_MAY_READ);
        return;
    }
    server->proc_fd = gs_sys_openat2(AT_FDCWD, "/proc/self", &how);
    if (server->proc_fd >= 0)
        serve_landlock_allow_fd(landlock, server->proc_fd, SERVE_MAY_READ);
}

static void allow_root(struct serve_landlock *landlock, const struct serve_options *options,
                       struct serve_root *root)
{
    serve_landlock_allow_fd(landlock, root->fd, SERVE_MAY_READ);
    if (options->http.follow_symlinks)
        serve_landlock_allow(landlock, "/", SERVE_MAY_READ);
    else if (options->sandbox == SERVE_SANDBOX_ON)
        root->is_fixed = true;
    else
        serve_landlock_allow_replaced(landlock, root->path, SERVE_MAY_READ);
}

static void allow_list(struct serve_landlock *landlock, const struct cli_list *files)
{
    for (size_t i = 0; i < files->count; i++)
        serve_landlock_allow_replaced(landlock, files->items[i], SERVE_MAY_READ);
}

/* A device is never replaced, and others are in its directory. */
static void allow_log(struct serve_landlock *landlock, const char *file)
{
    struct stat status;
    if (!stat(file, &status) && S_ISCHR(status.st_mode))
        serve_landlock_allow(landlock, file, SERVE_MAY_APPEND);
    else
        serve_landlock_allow_replaced(landlock, file, SERVE_MAY_APPEND);
}

static void allow_unix_sockets(struct serve_landlock *landlock, const struct serve_server *server)
{
    for (unsigned i = 0; i < server->address_count; i++) {
        const struct sockaddr_un *address = (const void *)&server->addresses[i].storage;
        if (server->addresses[i].file_fd >= 0 && address->sun_family == AF_UNIX)
            serve_landlock_allow_replaced(landlock, address->sun_path, SERVE_MAY_REMOVE);
    }
}

static void allow_files(struct serve_landlock *landlock, struct serve_server *server)
{
    const struct serve_options *options = server->options;
    for (unsigned i = 0; i < server->sites.root_count; i++)
        allow_root(landlock, options, &server->sites.roots[i]);
    allow_list(landlock, &options->certificates);
    allow_list(landlock, &options->keys);
    allow_list(landlock, &options->ocsp);
    if (options->passphrase_file)
        serve_landlock_allow_replaced(landlock, options->passphrase_file, SERVE_MAY_READ);
    if (options->access_log && strcmp(options->access_log, "-") != 0)
        allow_log(landlock, options->access_log);
    allow_unix_sockets(landlock, server);
    allow_proc(landlock, server);
    dl_iterate_phdr(allow_module, landlock);
}

static int restrict_files(struct serve_server *server, bool *ret_restricted)
{
    struct serve_landlock landlock;
    int err = serve_landlock_init(&landlock);
    if (!err) {
        allow_files(&landlock, server);
        err = serve_landlock_enforce(&landlock);
    }
    if (err)
        return report_lack(server, "files are not contained",
                           err == -ENOSYS || err == -EOPNOTSUPP ? "the kernel has no Landlock"
                                                                : strerror(-err));
    *ret_restricted = true;
    if (landlock.abi < 6)
        serve_info("signals to other programs are not contained: the kernel's Landlock is too old");
    return 0;
}

/* ---- System calls ---- */

/* Landlock lets the server read no memory but its own; that is for reports of stuck threads. */
static int restrict_calls(const struct serve_server *server, bool has_landlock)
{
    const char *poller = getenv("GS_POLLER");
    unsigned needs = has_landlock ? SERVE_NEEDS_MEMORY : 0;
    if (poller && !strcmp(poller, "io_uring"))
        needs |= SERVE_NEEDS_IO_URING;
    int err = serve_seccomp_enforce(needs);
    return err ? report_lack(server, "system calls are not filtered", strerror(-err)) : 0;
}

int serve_sandbox_enter(struct serve_server *server)
{
    if (server->options->sandbox == SERVE_SANDBOX_OFF)
        return 0;
    const char *why = why_not(server);
    if (why)
        return report_lack(server, "there is no sandbox", why);
    tzset(); /* reads the time zone, which dates in the log need */
    serve_contain_privileges(server->options->certificates.count > 0);
    bool has_landlock = false;
    int err = restrict_files(server, &has_landlock);
    return err ? err : restrict_calls(server, has_landlock);
}
