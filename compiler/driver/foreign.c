#include "compiler/driver/foreign.h"
#include "compiler/driver/bitcode.h"
#include "compiler/driver/folders.h"
#include "compiler/driver/words.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The runtime has them with a prefix. They work in kernel threads, too. */
static const char *const names[] = {
    "pthread_mutex_init",
    "pthread_mutex_destroy",
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_timedlock",
    "pthread_mutex_clocklock",
    "pthread_mutex_unlock",
    "pthread_mutex_consistent",
    "pthread_cond_init",
    "pthread_cond_destroy",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "pthread_cond_signal",
    "pthread_cond_broadcast",
    "pthread_rwlock_init",
    "pthread_rwlock_destroy",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_tryrdlock",
    "pthread_rwlock_wrlock",
    "pthread_rwlock_trywrlock",
    "pthread_rwlock_timedrdlock",
    "pthread_rwlock_timedwrlock",
    "pthread_rwlock_unlock",
    "pthread_barrier_init",
    "pthread_barrier_wait",
    "pthread_barrier_destroy",
    "sem_init",
    "sem_destroy",
    "sem_wait",
    "sem_trywait",
    "sem_timedwait",
    "sem_post",
    "sem_getvalue",
    "mtx_init",
    "mtx_lock",
    "mtx_trylock",
    "mtx_timedlock",
    "mtx_unlock",
    "mtx_destroy",
    "cnd_init",
    "cnd_wait",
    "cnd_timedwait",
    "cnd_signal",
    "cnd_broadcast",
    "cnd_destroy",
    "pthread_key_create",
    "pthread_key_delete",
    "pthread_getspecific",
    "pthread_setspecific",
    "tss_create",
    "tss_delete",
    "tss_get",
    "tss_set",
    "__cxa_thread_atexit_impl",
    "pthread_self",
    "pthread_testcancel",
    "pthread_setcancelstate",
    "pthread_setcanceltype",
    "sched_yield",
    "read",
    "write",
    "readv",
    "writev",
    "recv",
    "send",
    "recvfrom",
    "sendto",
    "recvmsg",
    "sendmsg",
    "accept",
    "accept4",
    "connect",
    "poll",
    "select",
    "epoll_wait",
    "sleep",
    "usleep",
    "nanosleep",
    "clock_nanosleep",
    "open",
    "close",
    "dup2",
    "fcntl",
    "pthread_sigmask",
    "sigprocmask",
    "raise",
};

/* What the file defines itself stays as it is. */
static bool read_defined(const char *path, struct words *ret_defined)
{
    const char *list = cc_own_file("defined");
    char line[1024];
    struct words command = {0};
    cc_words_add(&command, "nm");
    cc_words_add(&command, "--defined-only");
    cc_words_add(&command, "--extern-only");
    cc_words_add(&command, path);
    FILE *file = cc_run(&command, list) ? NULL : fopen(list, "r");
    while (file && fgets(line, sizeof line, file)) {
        const char *space = strrchr(line, ' ');
        if (space)
            cc_words_add(ret_defined, cc_text("%.*s", (int)strcspn(space + 1, "\n"), space + 1));
    }
    if (file)
        fclose(file);
    return file != NULL;
}

static bool has(const struct words *words, const char *word)
{
    for (size_t i = 0; i < words->count; i++)
        if (!strcmp(words->at[i], word))
            return true;
    return false;
}

/* Kernel threads have values of their own, which only the C library knows. */
static bool is_of_keys(const char *name)
{
    return strstr(name, "_key_") || strstr(name, "specific") || !strncmp(name, "tss_", 4);
}

bool cc_has_allocator(const char *path)
{
    struct words defined = {0};
    return read_defined(path, &defined) && has(&defined, "malloc");
}

const char *cc_foreign_copy(const char *path, unsigned number)
{
    const char *list = cc_own_file("foreign"), *slash = strrchr(path, '/');
    const char *copy = cc_own_file(cc_text("foreign-%u-%s", number, slash ? slash + 1 : path));
    struct words defined = {0};
    bool has_threads = cc_starts_threads(path);
    FILE *file = read_defined(path, &defined) ? fopen(list, "w") : NULL;
    if (!file) {
        cc_fail(list, strerror(errno));
        return NULL;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!has(&defined, names[i]) && !(has_threads && is_of_keys(names[i])))
            fprintf(file, "%s gs_cc_%s\n", names[i], names[i]);
    if (fclose(file)) {
        cc_fail(list, strerror(errno));
        return NULL;
    }
    struct words command = {0};
    cc_words_add(&command, "objcopy");
    cc_words_add(&command, cc_text("--redefine-syms=%s", list));
    cc_words_add(&command, path);
    cc_words_add(&command, copy);
    return cc_run(&command, NULL) ? NULL : copy;
}
