#include "thread/stack_reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/own_descriptors.h>
#include <gossamer/sys.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* Older headers lack these. */
#define USER_MODE_ONLY 1
#define FEATURE_MOVE ((uint64_t)1 << 16) /* Linux 6.8 */
#define MOVE_DONT_WAKE 1
struct move {
    uint64_t to, from, size, mode;
    int64_t moved;
};
#define MOVE _IOWR(UFFDIO, 5, struct move)

/* Free stacks that keep their pages, for the next threads. */
#define RESERVE_FREE_KEPT 64u

/* ---- Whether the kernel moves pages ---- */

static struct gs_spin lock; /* guards the opening */
static atomic_int state;    /* enum state */
static atomic_int descriptor = -1;
enum state { STATE_UNKNOWN, STATE_OPEN, STATE_REFUSED };

/* Pages are moved only to ranges that are registered. Nothing in them is protected from writing, so
 * no fault is reported to the descriptor. */
static int register_stacks(int fd)
{
    int err = 0;
    for (int c = PLAIN_CLASSES; c < RESERVED_CLASSES && !err; c++) {
        const struct stack_class *class = &gs_stack_classes[c];
        struct uffdio_register range = {
            .range = {(uintptr_t)class->base, class->layout.slot_size * class->max_slots},
            .mode = UFFDIO_REGISTER_MODE_WP,
        };
        err = gs_sys_ioctl(fd, UFFDIO_REGISTER, &range);
    }
    return err;
}

static int open_descriptor(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    int fd = gs_own_descriptor(
        (int)gs_syscall(SYS_userfaultfd, O_CLOEXEC | USER_MODE_ONLY, 0, 0, 0, 0, 0));
    if (fd < 0)
        return fd;
    int err = gs_sys_ioctl(fd, UFFDIO_API, &api);
    if (!err && !(api.features & FEATURE_MOVE))
        err = -EOPNOTSUPP;
    if (!err)
        err = register_stacks(fd);
    if (!err)
        return fd;
    gs_own_descriptor_close(fd);
    return err;
}

/* The checked library knows former threads by their control blocks, which would be returned. */
#ifdef GS_CHECKED
#define IS_CHECKED true
#else
#define IS_CHECKED false
#endif

static bool is_open(void)
{
    if (IS_CHECKED)
        return false;
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (LIKELY(now != STATE_UNKNOWN))
        return now == STATE_OPEN;
    spin_lock_always(&lock);
    now = atomic_load_explicit(&state, memory_order_relaxed);
    if (now == STATE_UNKNOWN) {
        int fd = open_descriptor();
        now = fd < 0 ? STATE_REFUSED : STATE_OPEN;
        atomic_store_explicit(&descriptor, fd, memory_order_relaxed);
        atomic_store_explicit(&state, now, memory_order_release);
    }
    spin_unlock_always(&lock);
    return now == STATE_OPEN;
}

/* In the child, the descriptor is for the parent's memory. */
void gs_reserve_reset(void)
{
    int fd = atomic_exchange(&descriptor, -1);
    if (fd >= 0)
        gs_own_descriptor_close(fd);
    atomic_store(&state, STATE_UNKNOWN);
    atomic_store(&lock.held, false);
}

/* The program may have closed the descriptor, and the number may be its own: so it stays open. */
static void refuse(void)
{
    atomic_store(&state, STATE_REFUSED);
    atomic_store(&descriptor, -1);
}

/* Returns 0; -EEXIST: there is a page; -ENOENT: there is none to be moved; -EBUSY: it is shared
 * with the child of a fork; -EAGAIN: the kernel uses it just now; or another error. */
static int move_page(char *to, const char *from)
{
    struct move move = {
        .to = (uintptr_t)to, .from = (uintptr_t)from, .size = gs_page_size, .mode = MOVE_DONT_WAKE};
    int err = gs_sys_ioctl(atomic_load_explicit(&descriptor, memory_order_relaxed), MOVE, &move);
    if (UNLIKELY(err && err != -EEXIST && err != -ENOENT && err != -EBUSY && err != -EAGAIN))
        refuse();
    return err;
}

/* ---- Free stacks ---- */

/* Their other pages are given back together, and then the slots. */
static void return_emptied(struct worker *worker)
{
    static const int self = -10000; /* PIDFD_SELF, Linux 6.14 */
    struct reserve *reserve = &worker->reserve;
    struct iovec pages[RESERVE_EMPTIED];
    for (unsigned i = 0; i < reserve->emptied_count; i++) {
        char *stack = reserve->emptied[i]->stack;
        pages[i] = (struct iovec){
            stack, (size_t)(stack_last_page(reserve->emptied[i]) + gs_page_size - stack)};
    }
    ssize_t done = gs_sys_process_madvise(self, pages, reserve->emptied_count, MADV_DONTNEED);
    for (unsigned i = 0; i < reserve->emptied_count; i++) {
        done -= (ssize_t)pages[i].iov_len;
        if (done < 0)
            (void)gs_sys_madvise(pages[i].iov_base, pages[i].iov_len, MADV_DONTNEED);
    }
    gs_stacks_return(reserve->emptied, reserve->emptied_count);
    reserve->emptied_count = 0;
}

bool gs_reserve_take(struct worker *worker, int stack_class, char *page)
{
    struct free_list *free = &worker->free[stack_class];
    struct reserve *reserve = &worker->reserve;
    if (free->count <= RESERVE_FREE_KEPT || free->first->has_canary || !is_open())
        return false;
    struct gs_thread *thread = free->first;
    int err = move_page(page, stack_last_page(thread));
    if (err && err != -ENOENT)
        return false;
    reserve->emptied[reserve->emptied_count++] = free_list_pop(free);
    if (reserve->emptied_count == RESERVE_EMPTIED)
        return_emptied(worker);
    return !err;
}

void gs_reserve_release(struct worker *worker)
{
    if (worker->reserve.emptied_count)
        return_emptied(worker);
}
