/* /proc/self/task lists the threads of the program: each of them, in order, and none that has
 * ended; at once, in small parts, from the beginning again, and from a place that was told. */
#include "tests/compat/pthread/program.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>

enum { THREADS = 300 };

static sem_t has_begun, may_end;
static long ids[THREADS];

static void *note_id(void *number)
{
    ids[(long)number] = syscall(SYS_gettid);
    sem_post(&has_begun);
    sem_wait(&may_end);
    return NULL;
}

static bool is_known(long id)
{
    bool is_one = id == getpid();
    for (int i = 0; i < THREADS; i++)
        is_one |= ids[i] == id;
    return is_one;
}

/* Returns the number of threads that are left to read; -1: one is unknown, or in disorder. */
static long count_threads(DIR *directory, long *ret_dots)
{
    const struct dirent *entry;
    long n = 0, last = 0;
    *ret_dots = 0;
    while ((entry = readdir(directory))) {
        long id = strtol(entry->d_name, NULL, 10);
        if (*entry->d_name == '.') {
            ++*ret_dots;
            continue;
        }
        if (id <= last || !is_known(id) || entry->d_type != DT_DIR)
            return -1;
        last = id;
        n++;
    }
    return n;
}

static long count_in_parts(size_t size)
{
    char part[256];
    int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
    long entries = 0, n;
    while ((n = syscall(SYS_getdents64, fd, part, size)) > 0)
        for (long at = 0; at < n; at += *(unsigned short *)(part + at + 16))
            entries++;
    close(fd);
    return n < 0 ? -errno : entries;
}

static void test_places(DIR *directory)
{
    long dots, place;
    rewinddir(directory);
    for (int i = 0; i < 100; i++)
        (void)!readdir(directory);
    place = telldir(directory);
    const struct dirent *entry = readdir(directory);
    long id = entry ? strtol(entry->d_name, NULL, 10) : -1;
    SHOW(count_threads(directory, &dots));
    seekdir(directory, place);
    entry = readdir(directory);
    SHOW(entry && strtol(entry->d_name, NULL, 10) == id);
}

int main(void)
{
    pthread_t threads[THREADS];
    long dots;
    sem_init(&has_begun, 0, 0);
    sem_init(&may_end, 0, 0);
    for (long i = 0; i < THREADS; i++)
        threads[i] = start(note_id, (void *)i);
    for (int i = 0; i < THREADS; i++)
        sem_wait(&has_begun);
    DIR *directory = opendir("/proc/self/task");
    SHOW(count_threads(directory, &dots));
    SHOW(dots);
    test_places(directory);
    SHOW(count_in_parts(256));
    SHOW(count_in_parts(32));
    SHOW(count_in_parts(8));
    SHOW_ERROR(syscall(SYS_getdents64, dirfd(directory), NULL, 0));
    for (int i = 0; i < THREADS; i++)
        sem_post(&may_end);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    do
        rewinddir(directory);
    while (count_threads(directory, &dots) != 1);
    closedir(directory);
    SHOW(dots);
    return 0;
}
