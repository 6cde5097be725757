/* Users and groups are those of the process: a change holds for all threads, and for each kernel
 * thread. Without privileges the changes fail in the same way. */
#include "tests/compat/pthread/program.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { THREADS = 5, TURNS = 20, USER = 12345, GROUP = 23456, OTHER_GROUP = 34567 };

static atomic_bool must_end;

static void *give_back(void *argument)
{
    return argument;
}

static void *create_threads(void *unused)
{
    while (!atomic_load(&must_end))
        finish(start(give_back, unused));
    return unused;
}

static void *wait_for_input(void *ends)
{
    char byte;
    long n = read(((int *)ends)[0], &byte, 1);
    gid_t groups[8];
    n = n * 1000 + getgroups(8, groups) * 100L + (getegid() == GROUP ? 10 : 0);
    return (void *)(n + (geteuid() == USER)); // NOLINT(performance-no-int-to-ptr)
}

static long ids_differ(const char *kernel_thread)
{
    char path[300], line[200];
    unsigned effective;
    long n = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", kernel_thread);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "Uid: %*u %u", &effective) == 1)
            n += effective != geteuid();
        if (sscanf(line, "Gid: %*u %u", &effective) == 1)
            n += effective != getegid();
    }
    if (file)
        fclose(file);
    return n;
}

/* How many kernel threads have other ids than this one. The old system call lists them also where
 * the new one lists the program's threads. */
static long count_others(void)
{
    struct entry {
        unsigned long inode, offset;
        unsigned short size;
        char name[];
    };
    _Alignas(struct entry) char entries[4096];
    int directory = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long others = 0, n;
    while ((n = syscall(SYS_getdents, directory, entries, sizeof entries)) > 0) {
        for (const char *at = entries; at < entries + n; at += ((const struct entry *)at)->size) {
            const char *name = ((const struct entry *)at)->name;
            others += *name == '.' ? 0 : ids_differ(name);
        }
    }
    close(directory);
    return n < 0 ? -1 : others;
}

/* The C library leaves out a thread that is ending, which is listed for a moment. */
static long count_lasting_others(void)
{
    long others = count_others();
    for (int tries = 0; tries < 100 && others > 0; tries++) {
        usleep(1000);
        others = count_others();
    }
    return others;
}

static void change_and_return(void)
{
    long failed = 0, other = 0;
    for (int i = 0; i < TURNS; i++) {
        failed += setegid(GROUP) != 0;
        failed += seteuid(USER) != 0;
        other += count_lasting_others();
        failed += seteuid(getuid()) != 0;
        failed += setegid(getgid()) != 0;
        other += count_lasting_others();
    }
    SHOW(failed);
    SHOW(other);
}

static void in_child(void (*fn)(void))
{
    int status = -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        fn();
        fflush(stdout);
        _exit(0);
    }
    SHOW(waitpid(pid, &status, 0) == pid);
    SHOW(status);
}

/* The runtime begins once more in the child, where the C library's handler is set already. */
static void change_in_child(void)
{
    finish(start(give_back, NULL));
    SHOW(seteuid(USER));
    SHOW(count_others());
}

/* Without /proc, as in a daemon's root, and without a descriptor. */
static void change_confined(void)
{
    const struct rlimit limit = {64, 64};
    finish(start(give_back, NULL));
    SHOW(chdir("/proc/self/fdinfo"));
    if (getuid() == 0)
        SHOW(chroot("."));
    SHOW(setrlimit(RLIMIT_NOFILE, &limit));
    while (dup(0) >= 0)
        continue;
    SHOW(seteuid(USER));
}

/* Start a request that io_uring has a kernel thread of its own wait for, if the kernel has it. */
static void read_in_ring(int input)
{
    static char byte;
    struct io_uring_params parameters = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 4, &parameters);
    if (ring < 0)
        return;
    char *queue = mmap(NULL, parameters.sq_off.array + 4 * sizeof(unsigned), PROT_READ | PROT_WRITE,
                       MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *request =
        mmap(NULL, 4 * sizeof *request, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (queue == MAP_FAILED || request == MAP_FAILED)
        return;
    *request = (struct io_uring_sqe){.opcode = IORING_OP_READ,
                                     .flags = IOSQE_ASYNC,
                                     .fd = input,
                                     .addr = (uintptr_t)&byte,
                                     .len = 1};
    *(unsigned *)(void *)(queue + parameters.sq_off.array) = 0;
    __atomic_store_n((unsigned *)(void *)(queue + parameters.sq_off.tail), 1, __ATOMIC_RELEASE);
    syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0);
}

/* What happens when it is done once in each kernel thread, and would not if it were twice. */
static void take_back(void)
{
    int ends[2];
    uid_t user[3] = {0};
    gid_t group[3] = {0};
    SHOW(pipe(ends));
    for (int i = 0; i < THREADS; i++)
        start(wait_for_input, ends);
    SHOW_ERROR(setresgid(GROUP, GROUP, (gid_t)-1));
    SHOW_ERROR(setresuid(USER, USER, (uid_t)-1));
    SHOW_ERROR(setgid(OTHER_GROUP));
    SHOW_ERROR(setuid(getuid() == USER ? 0 : getuid()));
    SHOW(getresuid(&user[0], &user[1], &user[2]) || getresgid(&group[0], &group[1], &group[2]));
    if (user[0] == USER)
        for (int i = 0; i < 3; i++)
            printf("%u %u\n", user[i], group[i]);
    SHOW(count_others());
}

static void change_beside_ring(void)
{
    int ends[2];
    SHOW(pipe(ends));
    finish(start(give_back, NULL));
    read_in_ring(ends[0]);
    SHOW(setgid(getgid()));
    SHOW(seteuid(USER));
    SHOW(geteuid() == USER);
}

static atomic_bool is_over;

static void *call(void *unused)
{
    const struct timespec moment = {.tv_nsec = 100000};
    while (!is_over) {
        geteuid();
        nanosleep(&moment, NULL);
    }
    return unused;
}

static void *compute(void *unused)
{
    while (!is_over)
        __builtin_ia32_pause();
    return unused;
}

/* The user is changed of threads that run now. */
static void change_beside_computing(void)
{
    pthread_t threads[THREADS];
    int failed = 0;
    for (int i = 0; i < THREADS; i++)
        threads[i] = start(i ? call : compute, NULL);
    for (int i = 0; i < 50; i++) {
        failed += seteuid(USER) || geteuid() != USER;
        finish(start(give_back, NULL));
        failed += seteuid(getuid()) || setegid(getgid());
    }
    SHOW(failed);
    is_over = true;
    for (int i = 0; i < THREADS; i++)
        SHOW(finish(threads[i]));
}

int main(void)
{
    pthread_t threads[THREADS], creator;
    gid_t groups[] = {GROUP, OTHER_GROUP};
    int ends[2];
    SHOW(pipe(ends));
    for (int i = 0; i < THREADS; i++)
        threads[i] = start(wait_for_input, ends);
    SHOW(setuid(getuid()));
    SHOW_ERROR(setresgid(getgid(), getgid(), getgid()));
    change_beside_computing();
    in_child(change_in_child);
    creator = start(create_threads, NULL);
    change_and_return();
    atomic_store(&must_end, true);
    finish(creator);
    in_child(change_confined);
    in_child(change_beside_ring);
    in_child(take_back);
    /* Privileges are dropped, as by a daemon. */
    SHOW_ERROR(setgroups(2, groups));
    SHOW_ERROR(setgid(GROUP));
    SHOW_ERROR(setuid(USER));
    SHOW(count_others());
    SHOW_ERROR(setuid(USER + 1));
    SHOW_ERROR(open("/etc/shadow", O_RDONLY | O_CLOEXEC));
    SHOW(write(ends[1], "12345", THREADS));
    for (int i = 0; i < THREADS; i++)
        SHOW(finish(threads[i]));
    return 0;
}
