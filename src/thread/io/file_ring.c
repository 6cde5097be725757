/* The states of a request, which is on the stack of the waiting thread, unless that is shared:
 *
 *     PENDING -- take_completions --> DONE
 *        |------ submit_entries ----> DONE      its number was closed
 *        |------ submit_entries ----> REJECTED  the kernel did not accept it
 *        `------ withdraw ----------> (the thread's again)
 *
 * Between its submission and its end, the request counts as a call on its file: the kernel looks
 * the numbers of directories up late. An entry that is withdrawn becomes a no-op without a request.
 * The ring signals completions
 * through the loop's own eventfd, so nothing has to be registered later that could fail. */
#include "thread/io/file_ring.h"

#include "base/pool.h"
#include "base/ring.h"
#include "loop/state.h"
#include "thread/io/descriptors.h"
#include "thread/schedule/off_stack.h"

#include <gossamer/sys.h>
#include <stdlib.h>
#include <unistd.h>

#define ENTRIES 256
/* Requests in progress. Each may be canceled, and there is room for the completions of both. */
#define REQUESTS_MAX 128
/* Kernel threads, unless the limit is raised. */
#define THREADS_A_PROCESSOR 4
/* So many entries are submitted without waiting for the loop. */
#define SUBMIT_BATCH 16

enum request_state { REQUEST_PENDING, REQUEST_DONE, REQUEST_REJECTED };

struct request {
    struct gs_thread *thread;
    const struct opened *file;
    enum request_state state;
    bool is_entered;      /* gs_opened_enter */
    uint32_t entry_index; /* index of its entry */
    int32_t result;
};

struct file_ring {
    struct gs_ring ring;
    struct gs_prepare before_wait;         /* active while there are entries to submit */
    struct gs_check after_wait;            /* active while completions are expected */
    unsigned active_ops;                   /* entries that are not completed */
    struct gs_semaphore slots, path_slots; /* the latter for calls on paths, in addition */
};

/* ---- Completions ---- */

static void end_request(struct worker *worker, struct request *request, enum request_state state)
{
    request->state = state;
    if (request->is_entered)
        gs_opened_leave(request->file);
    if (thread_claim(request->thread, CLAIM_WOKEN))
        gs_thread_enqueue(worker, request->thread);
}

static void take_completions(struct gs_check *check)
{
    struct file_ring *ring = gs_container_of(check, struct file_ring, after_wait);
    struct worker *worker = worker_current();
    const struct io_uring_cqe *completion;
    while ((completion = gs_ring_peek_cqe(&ring->ring))) {
        struct request *request = (struct request *)(uintptr_t)completion->user_data;
        if (request) {
            request->result = completion->res;
            end_request(worker, request, REQUEST_DONE);
        }
        gs_ring_cqe_seen(&ring->ring);
        ring->active_ops--;
    }
    if (!ring->active_ops)
        gs_check_stop(check);
}

/* ---- Entries ---- */

static struct request *cancel_entry(struct io_uring_sqe *entry)
{
    struct request *request = (struct request *)(uintptr_t)entry->user_data;
    *entry = (struct io_uring_sqe){.opcode = IORING_OP_NOP, .fd = -1};
    return request;
}

/* The nth entry from the end. */
static struct io_uring_sqe *last_entry(struct file_ring *ring, unsigned n)
{
    return &ring->ring.sqes[(ring->ring.tail - n) & (ring->ring.sq_count - 1)];
}

/* End the requests whose numbers were closed. Returns true if there were such requests. */
static bool end_closed(struct worker *worker, struct file_ring *ring)
{
    bool is_closed = false;
    for (unsigned n = gs_ring_unsubmitted(&ring->ring); n; n--) {
        struct io_uring_sqe *entry = last_entry(ring, n);
        struct request *request = (struct request *)(uintptr_t)entry->user_data;
        if (!request || !request->file)
            continue;
        request->is_entered = gs_opened_enter(request->file);
        if (request->is_entered)
            continue;
        cancel_entry(entry);
        request->result = -EBADF;
        end_request(worker, request, REQUEST_DONE);
        is_closed = true;
    }
    return is_closed;
}

/* Submit all entries. Those that the kernel does not accept now are withdrawn, since it may not
 * accept them for long. Returns true if requests were ended. */
static bool submit_entries(struct worker *worker, struct file_ring *ring)
{
    bool is_rejected = end_closed(worker, ring);
    is_rejected |= gs_ring_enter(&ring->ring, 0, 0) != 0;
    for (unsigned n = gs_ring_unsubmitted(&ring->ring); n; n--) {
        struct request *request = cancel_entry(last_entry(ring, n));
        is_rejected |= request != NULL;
        if (request)
            end_request(worker, request, REQUEST_REJECTED);
    }
    return is_rejected;
}

static void submit_before_wait(struct gs_prepare *prepare)
{
    struct file_ring *ring = gs_container_of(prepare, struct file_ring, before_wait);
    gs_prepare_stop(prepare);
    /* The threads of requests that were ended are ready now. */
    if (submit_entries(worker_current(), ring))
        gs_loop_wake(prepare->watcher.loop);
}

/* Returns NULL if the ring is full and the kernel accepts no entries. */
static struct io_uring_sqe *new_entry(struct worker *worker, struct file_ring *ring)
{
    struct io_uring_sqe *entry = gs_ring_get_sqe(&ring->ring);
    if (!entry) {
        submit_entries(worker, ring);
        entry = gs_ring_get_sqe(&ring->ring);
    }
    if (!entry)
        return NULL;
    ring->active_ops++;
    gs_check_start(&ring->after_wait);
    gs_prepare_start(&ring->before_wait);
    return entry;
}

static bool add_request(struct file_ring *ring, struct request *request,
                        const struct io_uring_sqe *filled)
{
    struct worker *worker = request->thread->worker;
    struct io_uring_sqe *entry = new_entry(worker, ring);
    if (!entry)
        return false;
    *entry = *filled;
    entry->user_data = (uintptr_t)request;
    request->entry_index = ring->ring.tail - 1;
    if (gs_ring_unsubmitted(&ring->ring) >= SUBMIT_BATCH)
        submit_entries(worker, ring);
    return true;
}

/* Returns true if the request was not submitted, and will not be. */
static bool withdraw(struct file_ring *ring, const struct request *request)
{
    struct io_uring_sqe *entry = &ring->ring.sqes[request->entry_index & (ring->ring.sq_count - 1)];
    /* Positions have 32 bits: after so many requests, that of an old one may be another's. */
    if (ring->ring.tail - request->entry_index > gs_ring_unsubmitted(&ring->ring) ||
        entry->user_data != (uintptr_t)request)
        return false;
    cancel_entry(entry);
    return true;
}

static void cancel_request(struct file_ring *ring, const struct request *request)
{
    struct io_uring_sqe *entry = new_entry(request->thread->worker, ring);
    if (!entry)
        return;
    entry->opcode = IORING_OP_ASYNC_CANCEL;
    entry->fd = -1;
    entry->addr = (uintptr_t)request;
}

/* ---- Waiting ---- */

/* Returns 0 when the request is completed, or -errno if the thread need not wait for it: it was
 * withdrawn, or canceled. */
static int await(struct file_ring *ring, struct request *request, uint64_t deadline_ns)
{
    static const struct wait_kind waiting = {"a file", true},
                                  ending = {"a file", true, .ignores_cancel = true};
    const struct wait wait = {.kind = &waiting, .deadline_ns = deadline_ns},
                      uninterruptible = {.kind = &ending, .deadline_ns = GS_NEVER};
    if (request->state != REQUEST_PENDING)
        return 0;
    int err = gs_thread_wait(request->thread, NULL, &wait);
    if (request->state != REQUEST_PENDING)
        return 0;
    if (withdraw(ring, request))
        return err;
    cancel_request(ring, request);
    while (request->state == REQUEST_PENDING)
        (void)gs_thread_wait(request->thread, NULL, &uninterruptible);
    return gs_ring_is_interrupted(request->result) ? err : 0;
}

/* Those may wait for other programs and machines, and must leave kernel threads to others. */
static bool is_on_path(const struct io_uring_sqe *entry)
{
    return entry->opcode == IORING_OP_OPENAT2 || entry->opcode == IORING_OP_STATX;
}

static int take_slots(struct file_ring *ring, bool is_path, uint64_t deadline_ns)
{
    int err = is_path ? gs_semaphore_wait(&ring->path_slots, deadline_ns) : 0;
    if (err)
        return err;
    err = gs_semaphore_wait(&ring->slots, deadline_ns);
    if (err && is_path)
        gs_semaphore_post(&ring->path_slots);
    return err;
}

/* Returns as gs_file_ring_run. */
static bool run_request(struct file_ring *ring, struct request *request,
                        const struct io_uring_sqe *entry, uint64_t deadline_ns, int64_t *ret_result)
{
    bool is_path = is_on_path(entry);
    int err = take_slots(ring, is_path, deadline_ns);
    if (err) {
        *ret_result = err;
        return true;
    }
    bool is_added = add_request(ring, request, entry);
    if (is_added) {
        err = await(ring, request, deadline_ns);
        *ret_result = err ? err : request->result;
    }
    gs_semaphore_post(&ring->slots);
    if (is_path)
        gs_semaphore_post(&ring->path_slots);
    return is_added && (err || request->state == REQUEST_DONE);
}

/* ---- The ring of a worker ---- */

/* Of the kernel's threads, which all rings of a worker share, calls on paths may occupy so many.
 * There are four a processor by default, so that a few readers of a disk that does not answer, or
 * FIFOs that are opened, would hold up all others. The limit can be raised since Linux 5.15. */
static unsigned raise_kernel_threads(const struct gs_ring *ring)
{
    unsigned wanted = gs_runtime.options.max_pool_threads;
    unsigned files = THREADS_A_PROCESSOR * (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    unsigned paths = gs_pool_max_threads(wanted, JOB_PATH);
    unsigned limits[2] = {0}; /* of bounded and unbounded work; 0: only return it */
    paths = paths < REQUESTS_MAX / 2 ? paths : REQUESTS_MAX / 2;
    files = files < wanted ? wanted : files;
    if (gs_sys_io_uring_register(ring->fd, IORING_REGISTER_IOWQ_MAX_WORKERS, limits, 2))
        return THREADS_A_PROCESSOR / 2;
    if (limits[0] >= paths + files)
        return paths;
    limits[0] = paths + files;
    limits[1] = 0;
    if (gs_sys_io_uring_register(ring->fd, IORING_REGISTER_IOWQ_MAX_WORKERS, limits, 2))
        return THREADS_A_PROCESSOR / 2;
    return paths;
}

static int new_ring(struct worker *worker, struct file_ring **ret_ring)
{
    static const uint8_t needed[] = {IORING_OP_READV,   IORING_OP_WRITEV, IORING_OP_FSYNC,
                                     IORING_OP_OPENAT2, IORING_OP_STATX,  IORING_OP_ASYNC_CANCEL};
    struct file_ring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return -ENOMEM;
    int err = gs_ring_init(&ring->ring, ENTRIES, 0);
    if (err)
        goto free_ring;
    err = gs_ring_supports(&ring->ring, needed, sizeof needed)
              ? gs_sys_io_uring_register(ring->ring.fd, IORING_REGISTER_EVENTFD,
                                         &worker->loop->wake_fd, 1)
              : -ENOSYS;
    if (err)
        goto done_ring;
    gs_prepare_init(&ring->before_wait, worker->loop, submit_before_wait);
    gs_check_init(&ring->after_wait, worker->loop, take_completions);
    ring->path_slots.count = raise_kernel_threads(&ring->ring);
    ring->slots.count = REQUESTS_MAX;
    *ret_ring = ring;
    return 0;

done_ring:
    gs_ring_done(&ring->ring);
free_ring:
    free(ring);
    return err;
}

/* The resource may be available at the next call. */
static bool is_temporary(int err)
{
    return err == -ENOMEM || err == -EMFILE || err == -ENFILE;
}

static struct file_ring *get_ring(struct worker *worker)
{
    if (!worker->file_ring && !worker->has_no_file_ring) {
        int err = new_ring(worker, &worker->file_ring);
        worker->has_no_file_ring = err && !is_temporary(err);
    }
    return worker->file_ring;
}

static bool run_off_stack(struct file_ring *ring, const struct request *initial,
                          const struct io_uring_sqe *entry, uint64_t deadline_ns,
                          int64_t *ret_result)
{
    struct off_stack off = {.thread = initial->thread};
    struct request *request = off_stack_in(&off, initial, sizeof *initial);
    bool is_done = true;
    *ret_result = off.err;
    if (!off.err)
        is_done = run_request(ring, request, entry, deadline_ns, ret_result);
    off_stack_end(&off);
    return is_done;
}

bool gs_file_ring_run(const struct io_uring_sqe *entry, const struct opened *file,
                      uint64_t deadline_ns, int64_t *ret_result)
{
    struct gs_thread *self = thread_current();
    struct file_ring *ring = deadline_ns ? get_ring(self->worker) : NULL;
    bool is_done;
    if (!ring)
        return false;
    if (thread_must_cancel(self)) {
        *ret_result = -ECANCELED;
        return true;
    }
    self->is_pinned = true;
    do {
        struct request request = {.thread = self, .file = file};
        is_done = run_off_stack(ring, &request, entry, deadline_ns, ret_result);
    } while (is_done && *ret_result != -ECANCELED && gs_ring_is_interrupted(*ret_result));
    self->is_pinned = false;
    return is_done;
}

void gs_file_ring_free(struct worker *worker)
{
    struct file_ring *ring = worker->file_ring;
    if (!ring)
        return;
    gs_prepare_stop(&ring->before_wait);
    gs_check_stop(&ring->after_wait);
    if (ring->active_ops)
        (void)gs_ring_cancel_all(&ring->ring);
    gs_ring_done(&ring->ring);
    free(ring);
    worker->file_ring = NULL;
}

void gs_file_ring_after_fork(struct worker *worker)
{
    if (worker->file_ring)
        gs_ring_done(&worker->file_ring->ring);
    free(worker->file_ring);
    worker->file_ring = NULL;
    worker->has_no_file_ring = false;
}
