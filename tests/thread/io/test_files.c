#include "tests/thread/schedule/forking.h"

#include <linux/openat2.h>

enum { THREADS = IS_EMULATED ? 40 : 300, RECORDS = 20, SIZE = 64 };

static char path[64];
static int fd;

static const struct open_how to_write = {.flags = O_RDWR | O_CLOEXEC};

static void make_file(void)
{
    strcpy(path, "/tmp/gossamer-files-XXXXXX");
    int made = mkstemp(path);
    MUST(made >= 0);
    close(made);
    fd = gs_open(AT_FDCWD, path, &to_write, GS_NEVER);
    MUST(fd >= 0);
}

static void remove_file(void)
{
    MUST_EQ(gs_close(fd), 0);
    MUST_EQ(unlink(path), 0);
}

/* Evict the file from the page cache, if the file system supports that. */
static void cool_file(void)
{
    MUST_EQ(gs_fsync(fd, GS_NEVER), 0);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void fill(char record[SIZE], long number)
{
    memset(record, 'a' + (int)(number % 26), SIZE);
    snprintf(record, SIZE, "%ld", number);
}

static void *write_and_read(void *argument)
{
    long first = (intptr_t)argument * RECORDS;
    char record[SIZE], got[SIZE];
    for (long i = first; i < first + RECORDS; i++) {
        fill(record, i);
        MUST_EQ(gs_pwrite(fd, record, SIZE, i * SIZE, GS_NEVER), SIZE);
    }
    if (argument == (void *)1)
        cool_file();
    for (long i = first; i < first + RECORDS; i++) {
        fill(record, i);
        MUST_EQ(gs_pread(fd, got, SIZE, i * SIZE, after(60 * GS_SECOND)), SIZE);
        MUST(!memcmp(got, record, SIZE));
    }
    return NULL;
}

static void spawn_all(gs_thread_fn *fn, struct gs_thread *threads[THREADS])
{
    for (int i = 0; i < THREADS; i++) {
        const struct gs_thread_attributes attributes = {.migrates = i % 2};
        MUST_EQ(gs_thread_spawn(&attributes, fn, (void *)(intptr_t)i, &threads[i]), 0);
    }
}

static void join_all(struct gs_thread *threads[THREADS])
{
    for (int i = 0; i < THREADS; i++)
        MUST(!join(threads[i]));
}

THREAD(share_file)
{
    struct gs_thread *threads[THREADS];
    struct stat stat;
    make_file();
    spawn_all(write_and_read, threads);
    join_all(threads);
    MUST_EQ(gs_stat(AT_FDCWD, path, &stat, GS_NEVER), 0);
    MUST_EQ(stat.st_size, THREADS * RECORDS * SIZE);
    remove_file();
}

TEST(many_threads_read_what_they_wrote)
{
    run_both(share_file);
}

/* ---- Tries that transfer a part ---- */

/* Replaced by linker options: what the worker tries stops after a few bytes, as where the page
 * cache has no more. */
ssize_t __real_gs_sys_preadv2(int number, const struct iovec *parts, int count, off_t offset,
                              int flags);
ssize_t __real_gs_sys_pwritev2(int number, const struct iovec *parts, int count, off_t offset,
                               int flags);
ssize_t __wrap_gs_sys_preadv2(int number, const struct iovec *parts, int count, off_t offset,
                              int flags);
ssize_t __wrap_gs_sys_pwritev2(int number, const struct iovec *parts, int count, off_t offset,
                               int flags);

static atomic_bool is_short;
static atomic_uint by_pool;

static struct iovec first_of(const struct iovec *parts, int count)
{
    int i = 0;
    while (i < count - 1 && !parts[i].iov_len)
        i++;
    return (struct iovec){parts[i].iov_base, parts[i].iov_len < 3 ? parts[i].iov_len : 3};
}

ssize_t __wrap_gs_sys_preadv2(int number, const struct iovec *parts, int count, off_t offset,
                              int flags)
{
    const struct iovec few = first_of(parts, count);
    atomic_fetch_add(&by_pool, !flags);
    return atomic_load(&is_short) && flags
               ? __real_gs_sys_preadv2(number, &few, 1, offset, 0)
               : __real_gs_sys_preadv2(number, parts, count, offset, flags);
}

ssize_t __wrap_gs_sys_pwritev2(int number, const struct iovec *parts, int count, off_t offset,
                               int flags)
{
    const struct iovec few = first_of(parts, count);
    return atomic_load(&is_short) && flags
               ? __real_gs_sys_pwritev2(number, &few, 1, offset, 0)
               : __real_gs_sys_pwritev2(number, parts, count, offset, flags);
}

static void read_parts(const char *expected, ssize_t n)
{
    char got[64];
    const struct iovec parts[] = {{got, 0}, {got, 5}, {got + 5, 5}, {got + 10, sizeof got - 10}};
    MUST_EQ(lseek(fd, 0, SEEK_SET), 0);
    MUST_EQ(gs_readv(fd, parts, 4, GS_NEVER), n);
    MUST(!memcmp(got, expected, (size_t)n));
    MUST_EQ(lseek(fd, 0, SEEK_CUR), n);
    MUST_EQ(gs_pread(fd, got, sizeof got, 1, GS_NEVER), n - 1);
    MUST(!memcmp(got, expected + 1, (size_t)n - 1));
}

static void transfer_in_parts(void)
{
    char text[] = "what is transferred by the pool", got[8];
    const struct iovec parts[] = {{text, 5}, {text + 5, 15}, {text + 20, 11}};
    make_file();
    atomic_store(&is_short, true);
    MUST_EQ(gs_writev(fd, parts, 3, GS_NEVER), 31);
    MUST_EQ(gs_pwrite(fd, "W", 1, 0, GS_NEVER), 1);
    MUST_EQ(gs_pwrite(fd, text, 31, 0, GS_NEVER), 31);
    read_parts(text, 31);
    atomic_store(&by_pool, 0);
    MUST_EQ(gs_pread(fd, got, 8, 28, GS_NEVER), 3); /* the end of the file, without the pool */
    MUST_EQ(gs_pread(fd, got, 3, 5, GS_NEVER), 3);
    MUST_EQ(gs_pread(fd, got, 8, 5, 0), 3); /* does not wait for the rest */
    MUST_EQ(atomic_load(&by_pool), 0);
    atomic_store(&is_short, false);
    remove_file();
}

THREAD(transfer_later)
{
    transfer_in_parts();
}

THREAD_TEST(transfer_is_whole_wherever_the_page_cache_ends, run_both)
{
    const struct gs_thread_attributes attributes = {.stack_is_shared = true};
    struct gs_thread *sharing;
    transfer_in_parts();
    MUST_EQ(gs_thread_spawn(&attributes, transfer_later, NULL, &sharing), 0);
    join(sharing);
}

/* ---- The file offset ---- */

static int other_fd;

static void *append(void *argument)
{
    int to = (intptr_t)argument % 3 ? fd : other_fd;
    char record[SIZE];
    fill(record, (intptr_t)argument);
    const struct iovec parts[] = {{record, 10}, {record + 10, SIZE - 10}};
    for (int i = 0; i < 4; i++)
        MUST_EQ(gs_writev(to, parts, 2, GS_NEVER), SIZE);
    return NULL;
}

/* No record may be overwritten or torn. */
static void check_records(void)
{
    int seen[THREADS] = {0};
    char got[SIZE], record[SIZE];
    MUST_EQ(lseek(fd, 0, SEEK_SET), 0);
    for (int i = 0; i < 4 * THREADS; i++) {
        MUST_EQ(gs_read(i % 2 ? fd : other_fd, got, SIZE, GS_NEVER), SIZE);
        long number = strtol(got, NULL, 10);
        MUST(number >= 0 && number < THREADS);
        fill(record, number);
        MUST(!memcmp(got, record, SIZE));
        seen[number]++;
    }
    MUST_EQ(gs_read(fd, got, SIZE, GS_NEVER), 0);
    for (int i = 0; i < THREADS; i++)
        MUST_EQ(seen[i], 4);
}

THREAD_TEST(threads_that_write_at_the_same_position_take_turns, run_both)
{
    struct gs_thread *threads[THREADS];
    make_file();
    other_fd = dup(fd);
    spawn_all(append, threads);
    join_all(threads);
    cool_file();
    check_records();
    MUST_EQ(gs_close(other_fd), 0);
    remove_file();
}

/* ---- Results ---- */

THREAD_TEST(status_is_that_of_the_kernel, run_both)
{
    struct stat stat, plain;
    MUST_EQ(gs_stat(AT_FDCWD, "/dev/null", &stat, GS_NEVER), 0);
    MUST_EQ(fstatat(AT_FDCWD, "/dev/null", &plain, 0), 0);
    MUST(S_ISCHR(stat.st_mode) && stat.st_rdev == plain.st_rdev && stat.st_dev == plain.st_dev &&
         stat.st_ino == plain.st_ino && stat.st_nlink == plain.st_nlink &&
         stat.st_mtim.tv_nsec == plain.st_mtim.tv_nsec);
}

THREAD_TEST(errors_and_end_of_file_are_returned, run_both)
{
    struct stat stat;
    char byte = 0;
    MUST_EQ(gs_open(AT_FDCWD, "/nowhere/to/be/found", &to_write, GS_NEVER), -ENOENT);
    MUST_EQ(gs_stat(AT_FDCWD, "/nowhere/to/be/found", &stat, GS_NEVER), -ENOENT);
    MUST_EQ(gs_stat(AT_FDCWD, "/", &stat, 0), -ETIMEDOUT);
    MUST_EQ(gs_fsync(-1, GS_NEVER), -EBADF);
    MUST_EQ(gs_pread(-1, &byte, 1, 0, GS_NEVER), -EBADF);
    MUST_EQ(gs_read(-1, &byte, 1, GS_NEVER), -EBADF);
    make_file();
    MUST_EQ(gs_pread(fd, &byte, 1, -1, GS_NEVER), -EINVAL);
    MUST_EQ(gs_pread(fd, &byte, 1, 0, GS_NEVER), 0);
    MUST_EQ(gs_read(fd, &byte, 1, GS_NEVER), 0);
    remove_file();
}

/* An open is interrupted by a timer, if there is one. */
THREAD_TEST(file_is_opened_where_there_are_no_timers, run_both)
{
    struct rlimit limit, none;
    MUST_EQ(getrlimit(RLIMIT_SIGPENDING, &limit), 0);
    none = (struct rlimit){.rlim_max = limit.rlim_max};
    MUST_EQ(setrlimit(RLIMIT_SIGPENDING, &none), 0);
    make_file();
    MUST_EQ(setrlimit(RLIMIT_SIGPENDING, &limit), 0);
    remove_file();
}

/* ---- Deadlines and cancellation of calls that would never complete ---- */

static void *open_for_ever(void *unused)
{
    const struct open_how to_read = {.flags = O_RDONLY | O_CLOEXEC};
    (void)unused;
    return (void *)(intptr_t)gs_open(AT_FDCWD, path, &to_read, GS_NEVER);
}

THREAD_TEST(open_in_progress_ends_at_the_deadline_and_by_cancellation, run_both)
{
    const struct open_how to_read = {.flags = O_RDONLY | O_CLOEXEC};
    strcpy(path, "/tmp/gossamer-files-XXXXXX");
    MUST(mkdtemp(path));
    strcat(path, "/fifo");
    MUST_EQ(mkfifo(path, 0600), 0);
    MUST_EQ(gs_open(AT_FDCWD, path, &to_read, after(3 * GS_MILLISECOND)), -ETIMEDOUT);
    for (int i = 0; i < 3; i++) {
        const struct gs_thread_attributes attributes = {.migrates = i == 2};
        struct gs_thread *thread;
        MUST_EQ(gs_thread_spawn(&attributes, open_for_ever, NULL, &thread), 0);
        if (i) /* otherwise the call is canceled before it is submitted */
            MUST_EQ(gs_thread_sleep(after(3 * GS_MILLISECOND)), 0);
        gs_thread_cancel(thread);
        MUST_EQ((intptr_t)join(thread), -ECANCELED);
    }
    struct gs_thread *reader = spawn(open_for_ever, NULL);
    int writer = gs_open(AT_FDCWD, path, &(struct open_how){.flags = O_WRONLY}, GS_NEVER);
    int opened = (int)(intptr_t)join(reader);
    MUST(writer >= 0 && opened >= 0);
    MUST_EQ(gs_close(writer), 0);
    MUST_EQ(gs_close(opened), 0);
    MUST_EQ(unlink(path), 0);
    *strrchr(path, '/') = 0;
    MUST_EQ(rmdir(path), 0);
}

/* ---- Calls on paths that would never complete, and others ---- */

THREAD_TEST(calls_on_paths_that_never_complete_hold_up_no_others, run_both)
{
    enum { OPENS = 80 };
    struct gs_thread *readers[OPENS];
    struct stat status;
    int file = memfd_create("file", MFD_CLOEXEC), fifo;
    strcpy(path, "/tmp/gossamer-files-XXXXXX");
    MUST(mkdtemp(path));
    strcat(path, "/fifo");
    MUST_EQ(mkfifo(path, 0600), 0);
    for (int i = 0; i < OPENS; i++) {
        readers[i] = spawn(open_for_ever, NULL);
        if (i == 20)
            MUST_EQ(gs_stat(AT_FDCWD, "/", &status, after(60 * GS_SECOND)), 0);
    }
    MUST_EQ(gs_thread_sleep(after(3 * GS_MILLISECOND)), 0);
    MUST_EQ(gs_fsync(file, after(60 * GS_SECOND)), 0);
    fifo = open(path, O_RDWR | O_CLOEXEC);
    for (int i = 0; i < OPENS; i++)
        MUST_EQ(gs_close((int)(intptr_t)join(readers[i])), 0);
    close(fifo), close(file);
    MUST_EQ(unlink(path), 0);
    *strrchr(path, '/') = 0;
    MUST_EQ(rmdir(path), 0);
}

/* ---- Fork ---- */

THREAD(fork_beside_calls)
{
    struct gs_thread *threads[THREADS];
    int status;
    make_file();
    spawn_all(write_and_read, threads);
    gs_thread_yield();
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid) {
        char parent[64];
        strcpy(parent, path);
        share_file(NULL);
        MUST_EQ(access(parent, F_OK), 0);
        _exit(7);
    }
    MUST_EQ(gs_wait_child(pid, GS_NEVER, &status), 0);
    MUST(WIFEXITED(status));
    MUST_EQ(WEXITSTATUS(status), 7);
    join_all(threads);
    remove_file();
}

TEST(forked_child_uses_files)
{
    skip_without_fork();
    run_both(fork_beside_calls);
}
