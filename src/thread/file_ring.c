/* The states of a request, which stands on the stack of the thread that waits:
 *
 *     UNDER_WAY --- take_answers ---> DONE
 *         |---- hand_over ----------> REFUSED     the kernel had not taken it
 *         `---- withdraw -----------> the thread's again
 *
 * An entry that is taken back becomes one that does nothing, for nobody. The ring tells the loop of answers by the loop's own
 * eventfd, so nothing has to be registered that could be refused later. */
#include "thread/file_ring.h"

#include "base/ring.h"
#include "loop/state.h"

#include <gossamer/sys.h>
#include <stdlib.h>

#define ENTRIES 256
/* Requests under way. Each may be cancelled, and there is room for the answers to both. */
#define PLACES 128
/* So many are not left to wait for the loop. */
#define TOGETHER 16

enum request_state { REQUEST_UNDER_WAY, REQUEST_DONE, REQUEST_REFUSED };

struct request {
    struct gs_thread *thread;
    enum request_state state;
    uint32_t place; /* of its entry */
    int32_t result;
};

struct file_ring {
    struct gs_ring ring;
    struct gs_prepare before_wait; /* while entries are to be handed over */
    struct gs_check after_wait;    /* while answers are to come */
    unsigned under_way;            /* entries that were not answered */
    struct gs_semaphore places;
};

/* ---- Answers ---- */

static void end(struct worker *worker, struct request *request, enum request_state state)
{
    request->state = state;
    if (thread_claim(request->thread, CLAIM_WOKEN))
        gs_thread_arrive(worker, request->thread);
}

static void take_answers(struct gs_check *check)
{
    struct file_ring *ring = gs_container_of(check, struct file_ring, after_wait);
    struct worker *worker = worker_current();
    const struct io_uring_cqe *answer;
    while ((answer = gs_ring_first(&ring->ring))) {
        struct request *request = (struct request *)(uintptr_t)answer->user_data;
        if (request) {
            request->result = answer->res;
            end(worker, request, REQUEST_DONE);
        }
        gs_ring_advance(&ring->ring);
        ring->under_way--;
    }
    if (!ring->under_way)
        gs_check_stop(check);
}

/* ---- Entries ---- */

static struct request *take_back(struct io_uring_sqe *entry)
{
    struct request *request = (struct request *)(uintptr_t)entry->user_data;
    *entry = (struct io_uring_sqe){.opcode = IORING_OP_NOP, .fd = -1};
    return request;
}

/* What the kernel does not take now is taken back: it may not come to it for long. True: there was such. */
static bool hand_over(struct worker *worker, struct file_ring *ring)
{
    bool is_refused = gs_ring_enter(&ring->ring, 0, 0);
    for (unsigned n = gs_ring_waiting(&ring->ring); n; n--) {
        uint32_t place = ring->ring.tail - n;
        struct request *request = take_back(&ring->ring.sqes[place & (ring->ring.sq_count - 1)]);
        is_refused |= request != NULL;
        if (request)
            end(worker, request, REQUEST_REFUSED);
    }
    return is_refused;
}

static void on_wait(struct gs_prepare *prepare)
{
    struct file_ring *ring = gs_container_of(prepare, struct file_ring, before_wait);
    gs_prepare_stop(prepare);
    /* Those who were refused are ready now. */
    if (hand_over(worker_current(), ring))
        gs_loop_wake(prepare->watcher.loop);
}

/* Returns NULL when the kernel takes no more. */
static struct io_uring_sqe *new_entry(struct worker *worker, struct file_ring *ring)
{
    struct io_uring_sqe *entry = gs_ring_entry(&ring->ring);
    if (!entry) {
        hand_over(worker, ring);
        entry = gs_ring_entry(&ring->ring);
    }
    if (!entry)
        return NULL;
    ring->under_way++;
    gs_check_start(&ring->after_wait);
    gs_prepare_start(&ring->before_wait);
    return entry;
}

static bool submit(struct file_ring *ring, struct request *request,
                   const struct io_uring_sqe *filled)
{
    struct worker *worker = request->thread->worker;
    struct io_uring_sqe *entry = new_entry(worker, ring);
    if (!entry)
        return false;
    *entry = *filled;
    entry->user_data = (uintptr_t)request;
    request->place = ring->ring.tail - 1;
    if (gs_ring_waiting(&ring->ring) >= TOGETHER)
        hand_over(worker, ring);
    return true;
}

/* True: it was not handed over, and will not be. */
static bool withdraw(struct file_ring *ring, const struct request *request)
{
    if (ring->ring.tail - request->place > gs_ring_waiting(&ring->ring))
        return false;
    take_back(&ring->ring.sqes[request->place & (ring->ring.sq_count - 1)]);
    return true;
}

static void cancel(struct file_ring *ring, const struct request *request)
{
    struct io_uring_sqe *entry = new_entry(request->thread->worker, ring);
    if (!entry)
        return;
    entry->opcode = IORING_OP_ASYNC_CANCEL;
    entry->fd = -1;
    entry->addr = (uintptr_t)request;
}

/* ---- Waiting ---- */

/* The kernel's own errors of calls that are to begin again are told, too. */
static bool is_interrupted(int64_t result)
{
    return result == -EINTR || result == -ECANCELED || result <= -512;
}

/* Returns 0 when the request has ended, or why it is of no interest any more. */
static int await(struct file_ring *ring, struct request *request, uint64_t deadline_ns)
{
    static const struct wait_kind waiting = {"a file", true};
    const struct wait wait = {.kind = &waiting, .deadline_ns = deadline_ns},
                      rest = {.kind = &waiting, .deadline_ns = GS_NEVER, .is_uninterrupted = true};
    if (request->state != REQUEST_UNDER_WAY)
        return 0;
    int err = gs_thread_wait(request->thread, NULL, &wait);
    if (request->state != REQUEST_UNDER_WAY)
        return 0;
    if (withdraw(ring, request))
        return err;
    cancel(ring, request);
    while (request->state == REQUEST_UNDER_WAY)
        (void)gs_thread_wait(request->thread, NULL, &rest);
    return is_interrupted(request->result) ? err : 0;
}

static bool run(struct file_ring *ring, const struct io_uring_sqe *entry, uint64_t deadline_ns,
                int64_t *ret_result)
{
    struct request request = {.thread = thread_current()};
    int err = gs_semaphore_wait(&ring->places, deadline_ns);
    if (err) {
        *ret_result = err;
        return true;
    }
    bool is_taken = submit(ring, &request, entry);
    if (is_taken) {
        err = await(ring, &request, deadline_ns);
        *ret_result = err ? err : request.result;
    }
    gs_semaphore_post(&ring->places);
    return is_taken && (err || request.state == REQUEST_DONE);
}

/* ---- The ring of a worker ---- */

static int make(struct worker *worker, struct file_ring **ret_ring)
{
    static const uint8_t needed[] = {IORING_OP_READV,   IORING_OP_WRITEV, IORING_OP_FSYNC,
                                     IORING_OP_OPENAT2, IORING_OP_STATX,  IORING_OP_ASYNC_CANCEL};
    struct file_ring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return -ENOMEM;
    int err = gs_ring_init(&ring->ring, ENTRIES, 0);
    if (err)
        goto free_ring;
    err = gs_ring_knows(&ring->ring, needed, sizeof needed)
              ? gs_sys_io_uring_register(ring->ring.fd, IORING_REGISTER_EVENTFD,
                                         &worker->loop->wake_fd, 1)
              : -ENOSYS;
    if (err)
        goto end_ring;
    gs_prepare_init(&ring->before_wait, worker->loop, on_wait);
    gs_check_init(&ring->after_wait, worker->loop, take_answers);
    ring->places.count = PLACES;
    *ret_ring = ring;
    return 0;

end_ring:
    gs_ring_done(&ring->ring);
free_ring:
    free(ring);
    return err;
}

/* What lacks now may be there at the next call. */
static bool is_for_now(int err)
{
    return err == -ENOMEM || err == -EMFILE || err == -ENFILE;
}

static struct file_ring *ring_of(struct worker *worker)
{
    if (!worker->file_ring && !worker->has_no_file_ring) {
        int err = make(worker, &worker->file_ring);
        worker->has_no_file_ring = err && !is_for_now(err);
    }
    return worker->file_ring;
}

bool gs_file_ring_run(const struct io_uring_sqe *entry, uint64_t deadline_ns, int64_t *ret_result)
{
    struct gs_thread *self = thread_current();
    struct file_ring *ring = deadline_ns ? ring_of(self->worker) : NULL;
    bool is_done;
    if (!ring)
        return false;
    if (thread_is_canceled(self)) {
        *ret_result = -ECANCELED;
        return true;
    }
    self->is_pinned = true;
    do
        is_done = run(ring, entry, deadline_ns, ret_result);
    while (is_done && *ret_result != -ECANCELED && is_interrupted(*ret_result));
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
    if (ring->under_way)
        (void)gs_ring_cancel_all(&ring->ring);
    gs_ring_done(&ring->ring);
    free(ring);
    worker->file_ring = NULL;
}

void gs_file_ring_forked(struct worker *worker)
{
    if (worker->file_ring)
        gs_ring_done(&worker->file_ring->ring);
    free(worker->file_ring);
    worker->file_ring = NULL;
    worker->has_no_file_ring = false;
}
