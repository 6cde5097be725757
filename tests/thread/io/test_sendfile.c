/* Sending a file that is not in the page cache does not block the worker. */
#include "tests/thread/fixture.h"
#include "thread/schedule/thread.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#define FILE_SIZE (IS_EMULATED ? (size_t)256 << 10 : (size_t)3 << 20)

static char path[64], *content;
static int fd, sockets[2];
static atomic_uint by_worker, by_pool;

/* Records a thread that waits for the disk. */
static long note(long number, void *data)
{
    (void)data;
    if (number == SYS_sendfile)
        atomic_fetch_add(gs_thread_self() ? &by_worker : &by_pool, 1);
    return 0;
}

static void make_file(void)
{
    strcpy(path, "/tmp/gossamer-sendfile-XXXXXX");
    fd = mkstemp(path);
    MUST(fd >= 0);
    content = malloc(FILE_SIZE);
    MUST(content);
    for (size_t i = 0; i < FILE_SIZE; i++)
        content[i] = (char)(i / 4096 + i * 7);
    MUST_EQ(write(fd, content, FILE_SIZE), FILE_SIZE);
    MUST_EQ(fsync(fd), 0);
}

static void remove_file(void)
{
    free(content);
    gs_close(fd);
    unlink(path);
}

static void *receive(void *unused)
{
    char *got = malloc(FILE_SIZE);
    size_t n = 0;
    MUST(got);
    while (n < FILE_SIZE) {
        ssize_t some = gs_recv(sockets[1], got + n, FILE_SIZE - n, 0, GS_NEVER);
        MUST(some > 0);
        n += (size_t)some;
    }
    MUST(!memcmp(got, content, FILE_SIZE));
    free(got);
    return unused;
}

static void send_all(void)
{
    off_t offset = 0;
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), 0);
    struct gs_thread *receiver = spawn(receive, NULL);
    atomic_store(&by_worker, 0);
    atomic_store(&by_pool, 0);
    while (offset < (off_t)FILE_SIZE) {
        ssize_t n = gs_sendfile(sockets[0], fd, &offset, FILE_SIZE - (size_t)offset, GS_NEVER);
        MUST(n > 0);
    }
    MUST_EQ(gs_sendfile(sockets[0], fd, &offset, 1, GS_NEVER), 0);
    join(receiver);
    gs_close(sockets[0]);
    gs_close(sockets[1]);
}

static size_t count_cached(void *mapped)
{
    static unsigned char pages[FILE_SIZE / 4096];
    size_t count = 0;
    MUST_EQ(mincore(mapped, FILE_SIZE, pages), 0);
    for (size_t i = 0; i < sizeof pages; i++)
        count += pages[i] & 1;
    return count;
}

static void *map_file(void)
{
    void *mapped = mmap(NULL, FILE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    MUST(mapped != MAP_FAILED);
    return mapped;
}

/* Returns whether this kernel reports what is in the page cache; if not, the pool sends
 * everything. */
static bool can_tell(void)
{
    char byte;
    const struct iovec part = {.iov_base = &byte, .iov_len = 1};
    MUST_EQ(gs_sys_pread(fd, &byte, 1, 0), 1);
    return gs_sys_preadv2(fd, &part, 1, 0, RWF_NOWAIT) == 1;
}

static bool is_cold;

THREAD(send_cold)
{
    make_file();
    void *mapped = map_file();
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    is_cold = !count_cached(mapped);
    send_all();
    MUST(!is_cold || atomic_load(&by_pool));
    munmap(mapped, FILE_SIZE);
    remove_file();
}

TEST(file_that_is_not_in_memory_is_sent_by_the_pool)
{
    gs_sys_set_fault(note, NULL);
    run_both(send_cold);
    gs_sys_set_fault(NULL, NULL);
    if (!is_cold)
        printf("not tested: the file cannot be evicted from the page cache\n");
}

/* The first half stays in the cache, so the missing part is found in the middle of the transfer. */
THREAD(send_half)
{
    make_file();
    void *mapped = map_file();
    bool is_locked = !mlock(mapped, FILE_SIZE / 2);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    size_t cached = count_cached(mapped);
    send_all();
    if (is_locked && cached == FILE_SIZE / 2 / 4096) {
        MUST(!can_tell() || atomic_load(&by_worker));
        MUST(atomic_load(&by_pool));
    }
    munmap(mapped, FILE_SIZE);
    remove_file();
}

TEST(pool_sends_the_part_that_is_not_in_memory)
{
    gs_sys_set_fault(note, NULL);
    run_both(send_half);
    gs_sys_set_fault(NULL, NULL);
}

THREAD(send_warm)
{
    make_file();
    void *mapped = map_file();
    bool is_locked = !mlock(mapped, FILE_SIZE);
    send_all();
    if (is_locked && can_tell()) {
        MUST(atomic_load(&by_worker));
        MUST(!atomic_load(&by_pool));
    }
    munmap(mapped, FILE_SIZE);
    remove_file();
}

TEST(file_in_memory_is_sent_by_the_worker)
{
    gs_sys_set_fault(note, NULL);
    run_both(send_warm);
    gs_sys_set_fault(NULL, NULL);
}

/* As FUSE and NFS do: the pages may be there, but not read yet. */
static long refuse_nowait(long number, void *data)
{
    return number == SYS_preadv2 ? -EOPNOTSUPP : note(number, data);
}

THREAD(send_without_telling)
{
    struct statfs file_system;
    make_file();
    MUST_EQ(fstatfs(fd, &file_system), 0);
    send_all();
    if (file_system.f_type == TMPFS_MAGIC) {
        MUST(!atomic_load(&by_pool));
    } else {
        MUST_EQ(atomic_load(&by_worker), 1); /* at the end of the file */
        MUST(atomic_load(&by_pool));
    }
    remove_file();
}

TEST(pool_sends_what_may_not_be_in_memory)
{
    gs_sys_set_fault(refuse_nowait, NULL);
    run_both(send_without_telling);
    gs_sys_set_fault(NULL, NULL);
}

/* The pool sends when another thread waits for the same socket, which has room all the time. */
static atomic_bool is_held, may_send;
static atomic_uint senders_done;

static long hold_in_pool(long number, void *data)
{
    if (number == SYS_sendfile && !gs_thread_self()) {
        atomic_store(&is_held, true);
        while (!atomic_load(&may_send))
            usleep(100);
    }
    return refuse_nowait(number, data);
}

THREAD(send_page)
{
    off_t offset = 0;
    MUST_EQ(gs_sendfile(sockets[0], fd, &offset, 4096, GS_NEVER), 4096);
    atomic_fetch_add(&senders_done, 1);
}

THREAD(send_byte)
{
    MUST_EQ(gs_send(sockets[0], "x", 1, 0, after(20 * GS_SECOND)), 1);
    atomic_fetch_add(&senders_done, 1);
}

THREAD(send_beside_the_pool)
{
    make_file();
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), 0);
    MUST_EQ(gs_wait_writable(sockets[0], GS_NEVER), 0); /* it is watched from now on */
    atomic_store(&is_held, false);
    atomic_store(&may_send, false);
    atomic_store(&senders_done, 0);
    struct gs_thread *page = spawn(send_page, NULL);
    while (!atomic_load(&is_held) && !atomic_load(&senders_done))
        MUST_EQ(gs_thread_sleep(after(20 * GS_MICROSECOND)), 0);
    struct gs_thread *byte = spawn(send_byte, NULL);
    while (!atomic_load(&senders_done) && atomic_load(&byte->claim) != CLAIM_WAITING)
        MUST_EQ(gs_thread_sleep(after(20 * GS_MICROSECOND)), 0);
    atomic_store(&may_send, true);
    join(page);
    join(byte);
    gs_close(sockets[0]);
    gs_close(sockets[1]);
    remove_file();
}

TEST(send_that_waits_while_the_pool_sends_a_file_is_woken)
{
    gs_sys_set_fault(hold_in_pool, NULL);
    run_both(send_beside_the_pool);
    gs_sys_set_fault(NULL, NULL);
}

THREAD(do_not_wait)
{
    off_t offset = 0;
    make_file();
    void *mapped = map_file();
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), 0);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    is_cold = !count_cached(mapped);
    atomic_store(&by_worker, 0);
    ssize_t n = gs_sendfile(sockets[0], fd, &offset, FILE_SIZE, 0);
    if (is_cold) {
        MUST_EQ(n, -ETIMEDOUT);
        MUST_EQ(offset, 0);
        MUST_EQ(atomic_load(&by_worker), 0);
    }
    gs_close(sockets[0]);
    gs_close(sockets[1]);
    munmap(mapped, FILE_SIZE);
    remove_file();
}

TEST(sendfile_with_deadline_0_does_not_wait_for_a_disk)
{
    gs_sys_set_fault(note, NULL);
    run_both(do_not_wait);
    gs_sys_set_fault(NULL, NULL);
}

/* Kernel threads that are to have stacks of this size cannot be created. */
static size_t set_stack_size(size_t size)
{
    pthread_attr_t attributes;
    size_t before;
    MUST_EQ(pthread_getattr_default_np(&attributes), 0);
    MUST_EQ(pthread_attr_getstacksize(&attributes, &before), 0);
    MUST_EQ(pthread_attr_setstacksize(&attributes, size), 0);
    MUST_EQ(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
    return before;
}

THREAD(send_without_pool)
{
    off_t offset = 0;
    make_file();
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), 0);
    atomic_store(&by_worker, 0);
    size_t before = set_stack_size((size_t)1 << 50);
    ssize_t n = gs_sendfile(sockets[0], fd, &offset, 4096, after(20 * GS_SECOND));
    set_stack_size(before);
    MUST_EQ(n, atomic_load(&by_worker) ? 4096 : -EAGAIN);
    gs_close(sockets[0]);
    gs_close(sockets[1]);
    remove_file();
}

TEST(sendfile_fails_if_no_kernel_thread_can_be_created)
{
    gs_sys_set_fault(refuse_nowait, NULL);
    run_both(send_without_pool);
    gs_sys_set_fault(NULL, NULL);
}

THREAD_TEST(offset_outside_of_a_file_is_refused_and_its_position_stays, run_both)
{
    const off_t offsets[] = {-1, -5000, INT64_MIN, INT64_MAX - 1, INT64_MAX};
    make_file();
    MUST_EQ(lseek(fd, 3, SEEK_SET), 3);
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), 0);
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        off_t offset = offsets[i];
        ssize_t n = gs_sendfile(sockets[0], fd, &offset, 1, after(20 * GS_SECOND));
        MUST(n == 0 || n == -EINVAL || n == -EOVERFLOW);
        MUST(n == -EINVAL || offset >= 0);
        MUST_EQ(offset, offsets[i]);
    }
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    off_t offset = 0;
    MUST_EQ(gs_sendfile(sockets[0], fd, &offset, 0, after(20 * GS_SECOND)), 0);
    MUST_EQ(lseek(fd, 0, SEEK_CUR), 3);
    gs_close(sockets[0]);
    gs_close(sockets[1]);
    remove_file();
}

/* It begins where the file is, and moves that; only regular files have such a place. */
THREAD_TEST(without_an_offset_it_is_that_of_the_file, run_both)
{
    char got[10] = "";
    int ends[2];
    make_file();
    MUST_EQ(pipe(ends), 0);
    MUST_EQ(lseek(fd, 4090, SEEK_SET), 4090);
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), 0);
    for (int i = 0; i < 2; i++) {
        MUST_EQ(gs_sendfile(sockets[0], fd, NULL, 7, GS_NEVER), 7);
        MUST_EQ(gs_recv(sockets[1], got, sizeof got, 0, GS_NEVER), 7);
        MUST(!memcmp(got, content + 4090 + (ptrdiff_t)7 * i, 7));
        MUST_EQ(lseek(fd, 0, SEEK_CUR), 4097 + 7 * i);
    }
    MUST_EQ(gs_sendfile(sockets[0], ends[0], NULL, 1, GS_NEVER), -EINVAL);
    MUST_EQ(gs_sendfile(sockets[0], -1, NULL, 1, GS_NEVER), -EBADF);
    for (int i = 0; i < 2; i++) {
        gs_close(sockets[i]);
        gs_close(ends[i]);
    }
    remove_file();
}
