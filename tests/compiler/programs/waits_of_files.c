/* What waits for files: FIFOs that are opened, locks of records, by threads and processes, and
 * bytes that the kernel moves. The other threads go on meanwhile. */
#include "program.h"

static char folder[] = "/tmp/files-XXXXXX", fifo[64], other_fifo[64], file[64];

static void *read_fifo(void *argument)
{
    char path[64], bytes[16] = "";
    strcpy(path, fifo);
    int fd = open(path, O_RDONLY);
    memset(path, 'x', sizeof path - 1);
    ssize_t n = read(fd, bytes, sizeof bytes);
    printf("read %zd %s from the FIFO %d\n", n, bytes, (int)(fd > 2));
    close(fd);
    return argument;
}

static void *read_stream(void *argument)
{
    char line[32] = "";
    FILE *stream = fopen(other_fifo, "r");
    if (!stream || !fgets(line, sizeof line, stream))
        abort();
    printf("stream: %s", line);
    fclose(stream);
    return argument;
}

static void fifos(void)
{
    pthread_t readers[2];
    mkfifo(fifo, 0600);
    mkfifo(other_fifo, 0600);
    pthread_create(&readers[0], NULL, read_fifo, NULL);
    int fd = openat(AT_FDCWD, fifo, O_WRONLY);
    if (write(fd, "some", 4) != 4)
        abort();
    close(fd);
    pthread_join(readers[0], NULL);
    pthread_create(&readers[1], NULL, read_stream, NULL);
    FILE *stream = fopen(other_fifo, "w");
    if (!stream)
        abort();
    fputs("a line\n", stream);
    fclose(stream);
    pthread_join(readers[1], NULL);
    printf("no reader: %s\n", open(fifo, O_WRONLY | O_NONBLOCK) < 0 ? strerror(errno) : "opened");
    fd = open(fifo, O_RDWR);
    printf("both ends %d\n", fd > 2);
    close(fd);
    printf("no file: %d", open("/nonexistent/file", O_RDONLY));
    printf(" %s\n", strerror(errno));
}

/* Each opening has a lock of its own. */
static void *lock_own(void *argument)
{
    struct flock record = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(file, O_RDWR), *turn = argument;
    printf("lock %d", fcntl(fd, F_OFD_SETLKW, &record));
    printf(" after turn %d\n", *turn);
    close(fd);
    return argument;
}

static void records_of_openings(void)
{
    struct flock record = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    pthread_t thread;
    int turn = 0, fd = open(file, O_RDWR | O_CREAT, 0600);
    if (fcntl(fd, F_OFD_SETLKW, &record))
        abort();
    pthread_create(&thread, NULL, lock_own, &turn);
    usleep(2000);
    turn = 1;
    record.l_type = F_UNLCK;
    fcntl(fd, F_OFD_SETLK, &record);
    pthread_join(thread, NULL);
    close(fd);
}

static int done[2];

static void *release(void *argument)
{
    usleep(2000);
    if (write(done[1], "d", 1) != 1)
        abort();
    return argument;
}

/* The child holds the lock until the parent's other thread, while this one waits, lets it go on. */
static void records_of_processes(void)
{
    struct flock record = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int ready[2], fd = open(file, O_RDWR);
    char byte = 0;
    pthread_t thread;
    if (pipe(ready) || pipe(done))
        abort();
    pid_t child = fork();
    if (!child) {
        fcntl(fd, F_SETLKW, &record);
        if (write(ready[1], "r", 1) != 1 || read(done[0], &byte, 1) != 1)
            _exit(1);
        _exit(0);
    }
    if (read(ready[0], &byte, 1) != 1)
        abort();
    printf("held: %s\n", fcntl(fd, F_SETLK, &record) ? "yes" : "no");
    pthread_create(&thread, NULL, release, NULL);
    printf("lock %d\n", fcntl(fd, F_SETLKW, &record));
    pthread_join(thread, NULL);
    waitpid(child, NULL, 0);
    close(fd);
}

/* More calls block than a small pool has kernel threads, and the last one is to end first. */
enum { MOVERS = 80 };
static int sources[MOVERS][2], target[2];

static void *move_byte(void *source)
{
    ssize_t n = splice(*(int *)source, NULL, target[1], NULL, 1, 0);
    return n == 1 ? NULL : source;
}

static void many_calls(void)
{
    pthread_t threads[MOVERS];
    int moved = 0;
    if (pipe(target))
        abort();
    for (int i = 0; i < MOVERS; i++) {
        if (pipe(sources[i]))
            abort();
        pthread_create(&threads[i], NULL, move_byte, &sources[i][0]);
    }
    for (int i = MOVERS - 1; i >= 0; i--) {
        char byte = 0;
        if (write(sources[i][1], "m", 1) == 1 && read(target[0], &byte, 1) == 1)
            moved += byte == 'm';
    }
    for (int i = 0; i < MOVERS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        moved += !result;
    }
    printf("moved %d\n", moved);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    snprintf(other_fifo, sizeof other_fifo, "%s/other", folder);
    snprintf(file, sizeof file, "%s/file", folder);
    fifos();
    records_of_openings();
    records_of_processes();
    many_calls();
    unlink(fifo);
    unlink(other_fifo);
    unlink(file);
    rmdir(folder);
    fflush(stdout);
    return 0;
}
