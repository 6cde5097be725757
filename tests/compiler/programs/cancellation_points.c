/* The calls that POSIX names as cancellation points (XSH 2.9.5.2), those that must be and those
 * that may: of each, whether a cancellation that is pending acts there, although the call would not
 * wait. Joining and aio_suspend are none in the C library if there is nothing to wait for, and
 * sem_clockwait is none if the semaphore is free. */
#include "program.h"

#include <aio.h>
#include <dirent.h>
#include <glob.h>
#include <grp.h>
#include <mqueue.h>
#include <netdb.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <syslog.h>
#include <termios.h>
#include <threads.h>
#include <wchar.h>

static int file, null, pair[2], full[2], epoll_fd, queue, passed;
static mqd_t messages;
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static char path[] = "/tmp/cancellation-points-XXXXXX", *memory;
static FILE *stream;
static sigset_t usr1;
static const struct timespec none;
static struct timeval no_time;
static const struct timespec past = {1, 0};
static struct flock whole = {.l_type = F_WRLCK};
static struct mmsghdr headers[1];
static mtx_t lock;
static cnd_t changed;
static pthread_t other;
static pthread_rwlock_t readers = PTHREAD_RWLOCK_INITIALIZER;
static struct aiocb reading;

static void unlock(void *unused)
{
    (void)unused;
    pthread_mutex_unlock(&mutex);
}

/* CALL(name, expression): the thread is canceled, and makes the call. */
#define CALL(name_, ...)                                                                           \
    static void *in_##name_(void *unused)                                                          \
    {                                                                                              \
        char bytes[16] = "";                                                                       \
        struct iovec part = {bytes, 1};                                                            \
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};                               \
        int number = 0;                                                                            \
        (void)unused, (void)part, (void)message, (void)number;                                     \
        pthread_cancel(pthread_self());                                                            \
        (void)!(__VA_ARGS__);                                                                      \
        passed = 1;                                                                                \
        return NULL;                                                                               \
    }

#define CALLS(CALL_)                                                                               \
    CALL_(accept, accept(pair[0], NULL, NULL))                                                     \
    CALL_(accept4, accept4(pair[0], NULL, NULL, 0))                                                \
    CALL_(clock_nanosleep, clock_nanosleep(CLOCK_MONOTONIC, 0, &none, NULL))                       \
    CALL_(close, close(-1))                                                                        \
    CALL_(connect, connect(pair[0], NULL, 0))                                                      \
    CALL_(creat, creat("/dev/null", 0600))                                                         \
    CALL_(fcntl_setlkw, fcntl(file, F_SETLKW, &whole))                                             \
    CALL_(fcntl_ofd_setlkw, fcntl(file, F_OFD_SETLKW, &whole))                                     \
    CALL_(fcntl_getfl, fcntl(file, F_GETFL))                                                       \
    CALL_(fdatasync, fdatasync(file))                                                              \
    CALL_(fsync, fsync(file))                                                                      \
    CALL_(lockf, lockf(file, F_LOCK, 0))                                                           \
    CALL_(mq_receive, mq_receive(messages, bytes, 16, NULL))                                       \
    CALL_(mq_send, mq_send(messages, bytes, 1, 0))                                                 \
    CALL_(mq_timedreceive, mq_timedreceive(messages, bytes, 16, NULL, &past))                      \
    CALL_(mq_timedsend, mq_timedsend(messages, bytes, 1, 0, &past))                                \
    CALL_(msgrcv, msgrcv(queue, bytes, 1, 0, IPC_NOWAIT))                                          \
    CALL_(msgsnd, msgsnd(queue, bytes, 1, IPC_NOWAIT))                                             \
    CALL_(msync, msync(memory, 4096, MS_SYNC))                                                     \
    CALL_(nanosleep, nanosleep(&none, NULL))                                                       \
    CALL_(open, open("/dev/null", O_RDONLY))                                                       \
    CALL_(open64, open64("/dev/null", O_RDONLY))                                                   \
    CALL_(openat, openat(AT_FDCWD, "/dev/null", O_RDONLY))                                         \
    CALL_(pause, pause())                                                                          \
    CALL_(poll, poll(NULL, 0, 0))                                                                  \
    CALL_(ppoll, ppoll(NULL, 0, &none, NULL))                                                      \
    CALL_(pread, pread(file, bytes, 1, 0))                                                         \
    CALL_(pread64, pread64(file, bytes, 1, 0))                                                     \
    CALL_(preadv, preadv(file, &part, 1, 0))                                                       \
    CALL_(preadv2, preadv2(file, &part, 1, 0, 0))                                                  \
    CALL_(pselect, pselect(0, NULL, NULL, NULL, &none, NULL))                                      \
    CALL_(cond_timedwait,                                                                          \
          pthread_mutex_lock(&mutex) + pthread_cond_timedwait(&condition, &mutex, &past))          \
    CALL_(cond_wait, pthread_mutex_lock(&mutex) + pthread_cond_wait(&condition, &mutex))           \
    CALL_(testcancel, (pthread_testcancel(), 0))                                                   \
    CALL_(pwrite, pwrite(file, bytes, 1, 0))                                                       \
    CALL_(pwritev, pwritev(file, &part, 1, 0))                                                     \
    CALL_(pwritev2, pwritev2(file, &part, 1, 0, 0))                                                \
    CALL_(read, read(null, bytes, 1))                                                              \
    CALL_(readv, readv(null, &part, 1))                                                            \
    CALL_(recv, recv(pair[0], bytes, 1, MSG_DONTWAIT))                                             \
    CALL_(recvfrom, recvfrom(pair[0], bytes, 1, MSG_DONTWAIT, NULL, NULL))                         \
    CALL_(recvmsg, recvmsg(pair[0], &message, MSG_DONTWAIT))                                       \
    CALL_(recvmmsg, recvmmsg(pair[0], headers, 1, MSG_DONTWAIT, NULL))                             \
    CALL_(select, select(0, NULL, NULL, NULL, &no_time))                                           \
    CALL_(sem_timedwait, sem_timedwait(&semaphore, &past))                                         \
    CALL_(sem_wait, sem_wait(&semaphore))                                                          \
    CALL_(send, send(pair[0], bytes, 1, MSG_DONTWAIT))                                             \
    CALL_(sendmsg, sendmsg(pair[0], &message, MSG_DONTWAIT))                                       \
    CALL_(sendmmsg, sendmmsg(pair[0], headers, 1, MSG_DONTWAIT))                                   \
    CALL_(sendto, sendto(pair[0], bytes, 1, MSG_DONTWAIT, NULL, 0))                                \
    CALL_(sigsuspend, sigsuspend(&usr1))                                                           \
    CALL_(sigtimedwait, sigtimedwait(&usr1, NULL, &none))                                          \
    CALL_(sigwait, sigwait(&usr1, &number))                                                        \
    CALL_(sigwaitinfo, sigwaitinfo(&usr1, NULL))                                                   \
    CALL_(sleep, sleep(0))                                                                         \
    CALL_(tcdrain, tcdrain(null))                                                                  \
    CALL_(thrd_sleep, thrd_sleep(&none, NULL))                                                     \
    CALL_(usleep, usleep(0))                                                                       \
    CALL_(wait, wait(NULL))                                                                        \
    CALL_(wait4, wait4(-1, NULL, WNOHANG, NULL))                                                   \
    CALL_(waitid, waitid(P_ALL, 0, NULL, WEXITED | WNOHANG))                                       \
    CALL_(waitpid, waitpid(-1, NULL, WNOHANG))                                                     \
    CALL_(write, write(null, bytes, 1))                                                            \
    CALL_(writev, writev(null, &part, 1))                                                          \
    CALL_(epoll_wait, epoll_wait(epoll_fd, &(struct epoll_event){0}, 1, 0))                        \
    CALL_(epoll_pwait, epoll_pwait(epoll_fd, &(struct epoll_event){0}, 1, 0, NULL))                \
    CALL_(fallocate, fallocate(file, 0, 0, 1))                                                     \
    CALL_(posix_fallocate, posix_fallocate(file, 0, 1))                                            \
    CALL_(copy_file_range, copy_file_range(file, NULL, -1, NULL, 1, 0))                            \
    CALL_(sync_file_range, sync_file_range(file, 0, 1, 0))                                         \
    CALL_(splice, splice(full[0], NULL, -1, NULL, 1, 0))                                           \
    CALL_(tee, tee(full[0], -1, 1, 0))                                                             \
    CALL_(vmsplice, vmsplice(-1, &part, 1, 0))                                                     \
    CALL_(getrandom, getrandom(bytes, 1, 0))                                                       \
    CALL_(fopen, fopen("/dev/null", "r") != NULL)                                                  \
    CALL_(freopen, freopen("/dev/null", "r", stream) != NULL)                                      \
    CALL_(fclose, fclose(stream))                                                                  \
    CALL_(fread, fread(bytes, 1, 1, stream))                                                       \
    CALL_(fgetc, fgetc(stream))                                                                    \
    CALL_(fgets, fgets(bytes, 8, stream) != NULL)                                                  \
    CALL_(getline, read_line())                                                                    \
    CALL_(fscanf, fscanf(stream, "%d", &number))                                                   \
    CALL_(fgetwc, (int)fgetwc(stream))                                                             \
    CALL_(fputs_flush, fputs("a", stream) + fflush(stream))                                        \
    CALL_(fputs, fputs("a", stream))                                                               \
    CALL_(fprintf_flush, fprintf(stream, "%d", 1) + fflush(stream))                                \
    CALL_(fwrite_flush, (int)fwrite("a", 1, 1, stream) + fflush(stream))                           \
    CALL_(dprintf, dprintf(null, "%d", 1))                                                         \
    CALL_(mkstemp, make_temporary())                                                               \
    CALL_(opendir, open_directory())                                                               \
    CALL_(access, access("/", F_OK))                                                               \
    CALL_(stat, stat("/", &(struct stat){0}))                                                      \
    CALL_(ioctl, ioctl_none())                                                                     \
    CALL_(lseek, (int)lseek(file, 0, SEEK_SET))                                                    \
    CALL_(rename, rename("/nowhere/a", "/nowhere/b"))                                              \
    CALL_(unlink, unlink("/nowhere/a"))                                                            \
    CALL_(glob, glob("/dev/null", 0, NULL, &(glob_t){0}))                                          \
    CALL_(cnd_wait, mtx_lock(&lock) + cnd_wait(&changed, &lock))                                   \
    CALL_(cnd_timedwait, mtx_lock(&lock) + cnd_timedwait(&changed, &lock, &past))                  \
    CALL_(cond_clockwait, pthread_mutex_lock(&mutex) +                                             \
                              pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &past))  \
    CALL_(join, pthread_join(other, NULL))                                                         \
    CALL_(thrd_join, thrd_join(other, NULL))                                                       \
    CALL_(timedjoin, pthread_timedjoin_np(other, NULL, &past))                                     \
    CALL_(tryjoin, pthread_tryjoin_np(other, NULL))                                                \
    CALL_(aio_suspend, aio_suspend((const struct aiocb *[]){&reading}, 1, NULL))                   \
    CALL_(epoll_pwait2, epoll_pwait2(epoll_fd, &(struct epoll_event){0}, 1, &none, NULL))          \
    CALL_(posix_openpt, posix_openpt(O_RDWR | O_NOCTTY))                                           \
    CALL_(getaddrinfo, getaddrinfo("127.0.0.1", NULL, NULL, &(struct addrinfo *){0}))              \
    CALL_(getpwnam, getpwnam("root") != NULL)                                                      \
    CALL_(getgrnam, getgrnam("root") != NULL)                                                      \
    CALL_(getservbyname, getservbyname("http", "tcp") != NULL)                                     \
    CALL_(syslog, (syslog(LOG_DEBUG, "a"), 0))                                                     \
    CALL_(fflush_all, fputs("a", stream) + fflush(NULL))                                           \
    CALL_(fputc, fputc('a', stream))                                                               \
    CALL_(fseek, fseek(stream, 0, SEEK_SET))                                                       \
    CALL_(ftell, (int)ftell(stream))                                                               \
    CALL_(chmod, chmod("/nowhere/a", 0600))                                                        \
    CALL_(getcwd, getcwd(bytes, sizeof bytes) != NULL)                                             \
    CALL_(link, link("/nowhere/a", "/nowhere/b"))                                                  \
    CALL_(mkdir, mkdir("/nowhere/a", 0700))                                                        \
    CALL_(readlink, (int)readlink("/nowhere/a", bytes, 1))                                         \
    CALL_(rwlock, pthread_rwlock_rdlock(&readers) + pthread_rwlock_unlock(&readers))               \
    CALL_(barrier, barrier_alone())                                                                \
    CALL_(semop, semop(-1, NULL, 0))                                                               \
    CALL_(sem_open, sem_open("/nowhere/a", 0) != SEM_FAILED)                                       \
    CALL_(flock, flock(file, LOCK_UN))                                                             \
    CALL_(localtime, localtime(&(time_t){0}) != NULL)                                              \
    CALL_(strerror, strerror(1) != NULL)                                                           \
    CALL_(mutex_lock, pthread_mutex_lock(&mutex))                                                  \
    CALL_(getenv, getenv("PATH") != NULL)

static int ioctl_none(void)
{
    int ioctl(int fd, unsigned long request, ...);
    return ioctl(null, 0x5401, NULL);
}

static int read_line(void)
{
    char *line = NULL;
    size_t size = 0;
    int result = (int)getline(&line, &size, stream);
    free(line);
    return result;
}

static int make_temporary(void)
{
    char name[] = "/tmp/cancellation-points-XXXXXX";
    int fd = mkstemp(name);
    return fd >= 0 ? unlink(name) : fd;
}

static int barrier_alone(void)
{
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 1);
    return pthread_barrier_wait(&barrier);
}

/* What others wait for. */
static void *never_end(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static int open_directory(void)
{
    DIR *directory = opendir("/");
    return directory ? closedir(directory) : -1;
}

CALLS(CALL)

/* Of functions that are called by pointers. */
static int (*volatile close_by_pointer)(int) = close;
static ssize_t (*volatile pread_by_pointer)(int, void *, size_t, off_t) = pread;

static void *in_pointers(void *unused)
{
    char byte;
    pthread_cancel(pthread_self());
    pthread_cleanup_push(unlock, NULL);
    pthread_mutex_lock(&mutex);
    if (unused)
        close_by_pointer(-1);
    else
        pread_by_pointer(file, &byte, 1, 0);
    passed = 1;
    pthread_cleanup_pop(1);
    return NULL;
}

/* A loop of these ends. */
static void *in_loop(void *unused)
{
    for (;;) {
        int fd = open("/dev/null", O_RDONLY);
        close(fd);
        if (unused)
            return unused;
    }
}

struct call {
    const char *name;
    void *(*function)(void *);
    void *argument;
};
#define ENTRY(name_, ...) {#name_, in_##name_, NULL},
static const struct call calls[] = {CALLS(ENTRY){"pointer", in_pointers, &file},
                                    {"other pointer", in_pointers, NULL}};

static void try_call(const struct call *call)
{
    pthread_t thread;
    void *result = NULL;
    passed = 0;
    pthread_mutex_init(&mutex, NULL);
    sem_init(&semaphore, 0, 1);
    mtx_init(&lock, mtx_plain);
    cnd_init(&changed);
    stream = fopen(path, "r+");
    setvbuf(stream, NULL, _IOFBF, 256);
    pthread_create(&thread, NULL, call->function, call->argument);
    pthread_join(thread, &result);
    printf("%s: %s\n", call->name,
           result != PTHREAD_CANCELED ? "not canceled"
           : passed                   ? "canceled too late"
                                      : "canceled");
}

static void prepare(void)
{
    static int empty[2];
    static char byte;
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(60);
    signal(SIGUSR1, SIG_DFL);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    file = mkstemp(path);
    null = open("/dev/null", O_RDWR);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    if (pipe(empty) || pipe(full) || write(full[1], "text", 4) != 4 || write(file, "text", 4) != 4)
        abort();
    epoll_fd = epoll_create1(0);
    queue = msgget(IPC_PRIVATE, 0600);
    messages = -1;
    pthread_create(&other, NULL, never_end, NULL);
    reading = (struct aiocb){.aio_fildes = empty[0], .aio_buf = &byte, .aio_nbytes = 1};
    aio_read(&reading);
    memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

int main(void)
{
    pthread_t thread;
    void *result;
    prepare();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        try_call(&calls[i]);
    pthread_create(&thread, NULL, in_loop, NULL);
    usleep(1000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("loop: %d\n", result == PTHREAD_CANCELED);
    msgctl(queue, IPC_RMID, NULL);
    unlink(path);
    _exit(0); /* the C library does not close streams whose calls were canceled */
}
