/* Threads of an unchanged program as user threads: what the files of this folder share.
 *
 * The library is preloaded into the program. Until that creates its first thread it does nothing.
 * Then the calling kernel thread, the program's first, gives its thread to the runtime as a task,
 * and becomes the one that receives signals (receiver.c); workers run the tasks. From then on the
 * kernel sends each system call of a task to us (Syscall User Dispatch, dispatch.c). A task has the
 * stack, the thread-local storage and the thread pointer that the C library made.
 *
 * A kernel thread that runs a task is either in the program or in here:
 *
 *     program --- system call, wrapper, kick ---> gs_task_enter ---> in here: may wait, and resume
 *        ^                                                           on another worker
 *        `--------- gs_task_leave (delivers signals) <---------------'
 *
 * 1. is_inside is true while the task is in here. It is thread-local, so a signal that interrupts
 *    one instruction of ours finds it; such a signal does nothing, and the task looks for what it
 *    announces before it leaves.
 * 2. The selector of the kernel thread is ALLOW while it is in here, so that the C library, if the
 *    runtime calls it, reaches the kernel; BLOCK in the program.
 * 3. A task switches only while it is inside, and holds no spin lock then.
 * 4. Signals are blocked for each task by its mask, never in the kernel for the program's sake
 *    (signals.c). Workers block all but faults, SIGSYS and the kick.
 *
 * Functions return a value or -errno, as system calls do. */
#ifndef GS_COMPAT_PTHREAD_TASK_H
#define GS_COMPAT_PTHREAD_TASK_H

#include <errno.h>
#include <gossamer/list.h>
#include <gossamer/thread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <ucontext.h>

#define GS_LIKELY(condition_) __builtin_expect(!!(condition_), 1)
#define GS_UNLIKELY(condition_) __builtin_expect(!!(condition_), 0)

/* Results by which a system call tells what an interruption means, as in the kernel. */
enum {
    RESTART_IF_ASKED = -512, /* again, or -EINTR if a handler without SA_RESTART was called */
    RESTART_NEVER = -514,    /* again if no handler was called */
};

/* The result of a system call on the worker, which a kick that came late may have interrupted. */
static inline long gs_or_restart(long result)
{
    return result == -EINTR ? RESTART_IF_ASKED : result;
}

/* What is no system call; the argument is the object's address. */
enum pseudo_call { CALL_LOCK = -1, CALL_CONDITION = -2, CALL_SEMAPHORE = -3 };

/* Why a wait has ended. */
enum wake { WAKE_NONE, WAKE_DONE, WAKE_SIGNAL };

/* Signals are numbered from 1; a set has bit number - 1. */
typedef uint64_t gs_signals;
enum { SIGNALS = 64 };
#define GS_SIGNAL(number_) ((gs_signals)1 << ((number_) - 1))

/* What is queued at a futex (futex.c). */
struct futex_waiter {
    struct gs_list link;
    struct task *task;
    const uint32_t *address;
    uint32_t value; /* with which the word was compared; 0: it was not */
    uint32_t bits;
    bool is_queued;  /* guarded by the lock of the bucket of `address`, which a requeue changes */
    bool wants_lock; /* FUTEX_LOCK_PI: it is woken with the lock */
};

/* Memory of tasks is never returned, so a late wake-up finds a task, though maybe another one. */
struct task {
    struct task *next_free;
    struct gs_thread *thread;
    unsigned tid;                  /* what the program takes for its thread id */
    atomic_uint wake;              /* enum wake: of the wait in progress */
    atomic_uint waits_for_signals; /* the wait ends when a signal comes */
    atomic_int running_on;         /* the kernel thread on which it is in the program; 0: none */
    _Atomic(gs_signals) pending;   /* of the task itself */
    _Atomic(gs_signals) mask;      /* blocked */
    gs_signals counted_mask;       /* as it is counted in signals.c, under its lock */
    _Atomic(gs_signals) wanted;    /* by a sigwait in progress: not blocked for it */
    struct queued_signal *queue, **queue_end; /* of pending, under gs_tasks_lock */
    stack_t alternate_stack;
    unsigned *clear_tid; /* the kernel's clear_child_tid */
    void *robust_list;
    size_t robust_size;
    struct futex_waiter condition; /* at a condition variable, also while handlers are called */
    void *thread_pointer;
    bool is_live;
    atomic_bool must_cancel; /* pthread_cancel was called for it: see wrappers.c */
    unsigned handled;        /* signal handlers called so far */
    unsigned handled_without_restart;
    char *control; /* memory of its control block */
    /* What it does in here: a system call, or one of enum pseudo_call. For reports. */
    long call;
    const long *call_arguments;
    bool is_waiting;      /* in gs_task_wait */
    bool was_interrupted; /* a wait of it was, since that was set to false */
    bool computes; /* it has run for a whole turn while others waited, and has not waited since */
    unsigned char vain_calls; /* in succession: gs_task_call_was_vain */
    bool is_blocking;         /* in a system call that may block its worker */
    uint64_t waits_since_cycles;
    atomic_bool must_dump;      /* dump.c */
    unsigned char side_in_hand; /* of fd_in_hand, and 0: of none (descriptors.c) */
    int fd_in_hand;
    char name[16];
    struct gs_processors *processors; /* on which it may run; NULL: as the process at the start */
    unsigned processors_version;      /* different for each set; 0: NULL */
    signed char nice;
    unsigned char policy, priority;
    /* CPU time: for which it has run until it was resumed last; what it was then, 0: it waits. In
     * cycles until a program asks for a thread's CPU time, and as the kernel counts afterwards. */
    _Atomic(uint64_t) cycles, since_cycles, cpu_ns, since_ns;
    atomic_int counted_tid;        /* the kernel thread that since_ns is of */
    struct task *next, **previous; /* list of live tasks, guarded by gs_tasks_lock */
};

/* What the kernel blocks in kernel threads that run tasks: async signals are received elsewhere.
 * A blocked fault would kill the process, and a blocked SIGSYS would at its next system call. */
#define GS_WORKER_MASK                                                                             \
    (~(GS_SIGNAL(SIGSEGV) | GS_SIGNAL(SIGBUS) | GS_SIGNAL(SIGFPE) | GS_SIGNAL(SIGILL) |            \
       GS_SIGNAL(SIGTRAP) | GS_SIGNAL(SIGSYS) | GS_SIGNAL(KICK)))

/* What belongs to a kernel thread that runs tasks. */
struct carrier {
    _Alignas(64) volatile char selector;
    bool is_attached;
    int tid;
    stack_t signal_stack;        /* the kernel's alternate stack of it: signal_stack.c */
    unsigned processors_version; /* of the set that the kernel has */
    atomic_uint switches;        /* of tasks; read by the ticker */
    atomic_bool must_switch;     /* set by the ticker */
    atomic_bool has_short_turn;  /* the task computes */
    /* wakeups.c: when a wake-up was held, in cycles; 0: none is. */
    _Atomic(uint64_t) held_since;
    atomic_bool was_overdue;
    volatile unsigned holds;    /* so far */
    unsigned patience, backoff; /* wake-ups that are not held, now and after the next failure */
    atomic_uint call;           /* that may wait: hand_over.c */
    volatile bool was_kicked;   /* since that began */
    atomic_bool is_stopped;     /* for ever: the process ends */
    unsigned calls;
    unsigned yields; /* of its tasks, so far */
};

/* The state of the whole library. */
struct gs_run {
    bool is_enabled;       /* the library is initialized */
    bool is_active;        /* there are tasks */
    atomic_bool has_begun; /* the first of them may run */
    unsigned workers;
    bool explains, traces, has_stats, leaves_children, is_unguarded;
    int dump_signal;                 /* 0: none */
    uint64_t start_cycles, start_ns; /* when it became active */
    int process_id;
    struct task *main_task;
    atomic_uint live; /* tasks */
    atomic_bool is_ticker_asleep;
    atomic_bool is_ending;      /* tasks stop: gs_carriers_stop */
    atomic_bool counts_exactly; /* CPU time of tasks */
};
extern struct gs_run gs_run;

/* Counts for --stats; approximate, as several workers add to them. */
struct gs_run_counts {
    uint64_t tasks, waits, dispatched, wrapped, pool_calls, hand_overs, preemptions, short_turns,
        signals;
};
extern struct gs_run_counts gs_counts;
#define GS_COUNT(member_)                                                                          \
    __atomic_store_n(&gs_counts.member_, gs_counts.member_ + 1, __ATOMIC_RELAXED)

/* The task that the kernel thread runs; NULL: the kernel thread is not in a task. */
extern __thread __attribute__((tls_model("initial-exec"))) struct task *gs_task;
extern __thread __attribute__((tls_model("initial-exec"))) volatile bool gs_task_is_inside;

/* Whether a wrapper is called by the program's thread, and not in here. */
static inline bool gs_is_wrapper_in_task(void)
{
    return GS_LIKELY(gs_run.is_active) && gs_task && !gs_task_is_inside;
}

/* ---- Spin locks: held for a few instructions, by kernel threads ---- */

struct gs_run_lock {
    atomic_bool is_held;
};
void gs_run_lock_slow(struct gs_run_lock *lock);

static inline void gs_run_acquire(struct gs_run_lock *lock)
{
    if (GS_UNLIKELY(atomic_exchange_explicit(&lock->is_held, true, memory_order_acquire)))
        gs_run_lock_slow(lock);
}

static inline void gs_run_release(struct gs_run_lock *lock)
{
    atomic_store_explicit(&lock->is_held, false, memory_order_release);
}

/* ---- Entering and leaving (carrier.c) ---- */

struct carrier *gs_carrier(void);
struct carrier *gs_carrier_at(unsigned index); /* NULL: no such one, or it has not run a task */

/* The first call on this worker makes it a carrier. Called inside, after each switch. */
void gs_carrier_attach(struct task *task);

void gs_carriers_forget(void);

/* The process ends: no other task runs in the program any more, or soon. */
void gs_carriers_stop(void);
/* The task is about to run in the program. */
void gs_carrier_stop(struct carrier *carrier);
static inline void gs_carrier_stop_if_ending(void)
{
    if (GS_UNLIKELY(atomic_load_explicit(&gs_run.is_ending, memory_order_relaxed)))
        gs_carrier_stop(gs_carrier());
}

void gs_task_enter(struct task *task);

/* Deliver signals, and return to the program. context: that of the system call or the kick, into
 * which *result is stored; NULL: the caller is a wrapper, signals are delivered by a kick. */
void gs_task_leave(struct task *task, ucontext_t *context, long *result, long number);

/* Let others run. Inside. */
void gs_task_yield(struct task *task);

/* The result of a call that does not wait for others here: nothing or -EAGAIN is in vain. A task
 * that makes many such calls in succession spins: others run meanwhile. Inside. */
void gs_task_call_was_vain(struct task *task);
static inline void gs_task_count_vain(struct task *task, long result)
{
    if (GS_LIKELY(result > 0))
        task->vain_calls = 0;
    else if (!result || result == -EAGAIN)
        gs_task_call_was_vain(task);
}

/* ---- Waiting (carrier.c): inside ---- */

/* A wait in three steps, so that no wake-up between the first and the third is lost:
 *
 *     gs_task_prepare(task, true);
 *     ... check, and tell those who wake where to find the task ...
 *     result = gs_task_wait(task, deadline_ns);
 *
 * Returns 0, -ETIMEDOUT or, if is_interruptible, -EINTR. */
void gs_task_prepare(struct task *task, bool is_interruptible);
int gs_task_wait(struct task *task, uint64_t deadline_ns);

/* End a task's wait, unless it has ended. Any kernel thread. */
void gs_task_wake(struct task *task, enum wake wake);

/* ---- Wake-ups of idle workers (wakeups.c) ---- */

void gs_wakeups_unpark(struct gs_thread *thread); /* any kernel thread */
int gs_wakeups_spawn(const struct gs_thread_attributes *attributes, void *argument);
void gs_wakeups_settle_slow(struct carrier *carrier, bool waits);
/* The receiver: wake an idle worker for what was held for too long. Returns whether the carrier has
 * held any since. */
bool gs_wakeups_tick(struct carrier *carrier, unsigned *seen_holds);

/* The task is about to wait, or to make a call that may hold its worker. */
static inline void gs_wakeups_settle(struct carrier *carrier, bool waits)
{
    if (atomic_load_explicit(&carrier->held_since, memory_order_relaxed))
        gs_wakeups_settle_slow(carrier, waits);
}

/* Deadlines: NULL means never. -EINVAL if the time is invalid. */
int gs_deadline_after(const struct timespec *timeout, uint64_t *ret_deadline_ns);
int gs_deadline_at(clockid_t clock, const struct timespec *time, uint64_t *ret_deadline_ns);

/* ---- Tasks (clone.c) ---- */

extern struct gs_run_lock gs_tasks_lock;
extern struct task *gs_tasks; /* the live ones */

/* Registers with which a thread starts, in the order in which x86_64.S loads them. */
struct start_registers {
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rsp, rip;
    struct task *task;
    uint32_t mxcsr;
    uint16_t x87_control;
};

/* Make a task that starts with these registers; they are copied below its stack pointer. */
int gs_task_spawn(struct task *task, const struct start_registers *start);
struct task *gs_task_new(unsigned tid);  /* NULL: no memory */
struct task *gs_task_find(unsigned tid); /* the caller holds gs_tasks_lock; NULL: none */
struct task *gs_task_find_pointer(const void *thread_pointer); /* as well */
bool gs_task_is_tid(unsigned tid);     /* of a task that exists, or may have existed */
void gs_task_begin(struct task *task); /* called by x86_64.S */
long gs_clone(struct task *task, ucontext_t *context);
long gs_clone3(struct task *task, ucontext_t *context);
_Noreturn void gs_task_exit(struct task *task);
void gs_tasks_release_robust(void); /* of all: the process ends */
void gs_tasks_forget(void);

/* ---- Names, processors, priorities and clocks of tasks (scheduling.c) ---- */

void gs_scheduling_start(struct task *main_task);
void gs_scheduling_inherit(struct task *task, const struct task *parent);
void gs_scheduling_free(struct task *task);
void gs_processors_apply(struct carrier *carrier, const struct task *task);
void gs_task_set_name(struct task *task, const char *name);

/* When the task is resumed, and before it waits. */
void gs_task_count_exactly(struct task *task, bool begins);
static inline void gs_task_count_since(struct task *task)
{
    if (GS_UNLIKELY(atomic_load_explicit(&gs_run.counts_exactly, memory_order_relaxed)))
        gs_task_count_exactly(task, true);
    else
        atomic_store_explicit(&task->since_cycles, __builtin_ia32_rdtsc(), memory_order_relaxed);
}

static inline void gs_task_count_until(struct task *task)
{
    uint64_t since = atomic_load_explicit(&task->since_cycles, memory_order_relaxed);
    uint64_t cycles = atomic_load_explicit(&task->cycles, memory_order_relaxed);
    if (GS_UNLIKELY(!since)) {
        gs_task_count_exactly(task, false);
        task->waits_since_cycles = __builtin_ia32_rdtsc();
        return;
    }
    task->waits_since_cycles = __builtin_ia32_rdtsc();
    atomic_store_explicit(&task->cycles, cycles + task->waits_since_cycles - since,
                          memory_order_relaxed);
    atomic_store_explicit(&task->since_cycles, 0, memory_order_relaxed);
}

/* A path in /proc that names a task names none for the kernel. Returns the path of a kernel thread
 * instead, or `path` if it is another one. *ret_task: whose name is in the file; NULL: none. */
enum { PROC_PATH_MAX = 128 };
const char *gs_proc_path(struct task *task, const char *path, char buffer[PROC_PATH_MAX],
                         struct task **ret_task);

/* ---- Futexes (futex.c) ---- */

long gs_futex(struct task *task, const long *arguments);
unsigned gs_futex_wake(const uint32_t *address, unsigned count, uint32_t bits);
long gs_futex_wait(struct task *task, const uint32_t *address, uint32_t value,
                   uint64_t deadline_ns);
/* Queue the task at the address, call release(argument), and wait: as gs_futex_wait returns, but
 * after -EINTR the task is queued: it waits on with _continue, or gives up with _withdraw, which
 * returns whether it had not been woken. */
long gs_condition_wait(struct task *task, const void *address, void (*release)(void *),
                       void *argument, uint64_t deadline_ns);
long gs_condition_continue(struct task *task, uint64_t deadline_ns);
bool gs_condition_withdraw(struct task *task);
void gs_futex_wake_at_end(const uint32_t *word); /* which the end of a task has cleared */
/* A kernel thread of the runtime may have released locks of the C library. */
void gs_futexes_look_again(void);
void gs_futexes_forget(void);

/* ---- Descriptors (descriptors.c) ---- */

int gs_descriptors_start(void);
void gs_descriptors_forget(void);
_Noreturn void gs_descriptors_serve(void); /* the thread that collects events */

struct pollfd;
/* Wait until one of the descriptors may be ready. Returns 0, -ETIMEDOUT, -EINTR, or -EPERM or
 * another error if one cannot be watched: the call must be made by the pool then. */
int gs_wait_for_descriptors(struct task *task, const struct pollfd *polls, unsigned long count,
                            uint64_t deadline_ns);
/* The same for one, and its revents are the events that came; 0: the kernel must be asked. */
int gs_wait_to_poll(struct task *task, struct pollfd *poll, uint64_t deadline_ns);
/* The same for a call that reads or writes: one such task is woken at a time. It calls
 * gs_descriptor_hand_on before it waits again or leaves, if it has side_in_hand. */
int gs_wait_for_descriptor(struct task *task, int fd, unsigned events, uint64_t deadline_ns);
void gs_descriptor_hand_on(struct task *task);
/* Whether a poll of the descriptor shall begin with the wait; and what came of one that did not. */
bool gs_poll_expects_wait(int fd);
void gs_poll_was_asked(int fd, bool had_to_wait);
/* Tell those who wait for the descriptor that it was closed. */
void gs_descriptor_closed(int fd);
void gs_descriptors_closed(unsigned first, unsigned last);
/* Before a receive from the descriptor, and after it if that has not taken all that was there and
 * the first has returned true. */
bool gs_descriptor_begins_receive(int fd);
void gs_descriptor_has_more(int fd);
/* The program does what this library does not see: no descriptor stays armed. */
void gs_descriptors_disarm_always(void);
/* Only one task at a time may be between these two. */
void gs_descriptor_lock(struct task *task, int fd);
void gs_descriptor_unlock(int fd);

/* ---- Kernel threads without the C library (kernel_thread.c) ---- */

/* Start one, for code that uses nothing but system calls. Returns 0 or -errno. */
int gs_kernel_thread_start(void (*fn)(void *argument), void *argument);
void gs_kernel_threads_forget(void);

/* A stack, and a thread pointer at which there is nothing but the zero of gs_task. */
struct gs_bare_thread {
    char *stack_top;
    void *thread_pointer;
};
int gs_bare_thread_new(struct gs_bare_thread **ret_thread);

/* ---- Calls in other kernel threads (pool.c) ---- */

/* Make the system call there. Returns its result; -EINTR from a signal becomes RESTART_IF_ASKED. */
long gs_pool_call(struct task *task, long number, const long *arguments);
void gs_pool_forget(void);

/* ---- Calls on the worker that may wait (hand_over.c) ---- */

/* Make the system call. *ret_was_kicked: it took too long, and may have been interrupted; then
 * -EINTR means that the task should wait in another way, and fewer bytes that some are left. */
long gs_call_waiting(struct task *task, long number, const long *arguments, bool *ret_was_kicked);
/* The same, and the pool makes the call after an interruption, and if such calls take long. */
long gs_call_on_worker(struct task *task, long number, const long *arguments, bool *ret_was_kicked);

/* ---- Signals (signals.c, deliver.c, receiver.c) ---- */

struct kernel_action {
    void *handler;
    uint64_t flags;
    void *restorer;
    gs_signals mask;
};
enum { KICK = 64 }; /* the signal between our kernel threads */
#define SA_RESTORER_FLAG 0x04000000u

void gs_signals_start(struct task *main_task);
void gs_signals_forget(struct task *task); /* in a child: the kernel's are the program's again */
void gs_signals_count(struct task *task, const struct task *parent); /* a new one's mask counts */
void gs_signals_uncount(struct task *task);
bool gs_is_handler(const struct kernel_action *action); /* neither the default nor ignored */
struct kernel_action gs_action_of(int number);
long gs_sigaction(struct task *task, const long *arguments);
long gs_sigprocmask(struct task *task, const long *arguments);
void gs_set_mask(struct task *task, gs_signals mask, bool is_internal);
/* The C library's own signals, cancellation and changing the user: programs cannot block them. */
#define GS_INTERNAL_SIGNALS (GS_SIGNAL(32) | GS_SIGNAL(33))
void gs_mask_lasts(struct task *task); /* also if the C library has set it */
gs_signals gs_blocked_by_all(void);
gs_signals gs_signals_reserved(void); /* of this library: never blocked in the receiver */
void gs_kick(int tid);

/* Send to a task, or to the process: to a task that does not block it. Any kernel thread. info may
 * be NULL. Returns false if all block it: it stays with the kernel. */
unsigned gs_signals_received(void); /* by the receiver so far: handled or passed to a task */
void gs_signal_task(struct task *task, int number, const siginfo_t *info);
bool gs_signal_process(int number, const siginfo_t *info);
/* What has been sent to the process, and the task does not block, is pending in a task then. */
void gs_signals_settle(struct task *task);
void gs_signals_end(struct task *task); /* it ends: others get what it has of the process's */
gs_signals gs_deliverable(struct task *task);
bool gs_has_signal(struct task *task);

/* Call the handlers of what is pending. *result: of the system call that is interrupted. */
void gs_deliver(struct task *task, ucontext_t *context, long *result, long number);
/* Take one pending signal of the set without calling a handler. Returns its number or 0. */
int gs_take_pending(struct task *task, gs_signals set, siginfo_t *ret_info);

/* Whether the program was interrupted, and not this library. */
bool gs_is_in_program(void);

/* ---- The stacks of our handlers (signal_stack.c) ---- */

int gs_signal_stack_attach(struct carrier *carrier);
/* The handler runs on the task's alternate stack, and the next signal's has to run on the other. */
bool gs_must_move_back(struct task *task, const ucontext_t *context);
/* The frame could not be moved, or did not interrupt the program. */
bool gs_is_on_signal_stack(void);
/* A signal handler of ours that begins on the carrier's stack: calls gs_on_kick or gs_on_signal. */
void gs_run_signal_entry(int number, siginfo_t *info, void *context);
intptr_t gs_signal_move(int number, const siginfo_t *info, ucontext_t *context, void *frame);

void gs_on_signal(int number, siginfo_t *info, void *context);
void gs_on_kick(int number, siginfo_t *info, void *context);
_Noreturn void gs_receiver_main(void *unused);
void gs_receiver_update(bool is_synchronous);
void gs_receiver_wake(void);
bool gs_timer_expired(const siginfo_t *kick); /* timers.c */
void gs_timers_forget(void);
void gs_receiver_start(int receiver_tid); /* 0: there is none any more */

/* Let the signal have the default action of the kernel. */
void gs_signal_default(int number);

/* ---- Activation (activate.c), fork (fork.c), reports (report.c) ---- */

void gs_run_activate(void);
void gs_run_deactivate(struct task *task); /* in a forked child */
long gs_task_fork(struct task *task, long flags, const long *arguments, ucontext_t *context);
long gs_exec(struct task *task, long number, const long *arguments);
void gs_report_refusal(const char *reason) __attribute__((noreturn));

/* The program changes what belongs to a kernel thread, and here to all tasks: it ends. */
void gs_credentials_refuse(void) __attribute__((noreturn));
/* The process goes on without the runtime; with --explain it says so. */
void gs_report_native(const char *reason);
void gs_report_stats(void);
void gs_report_advice(const char *numbers, const char *advice);
void gs_explain(const struct task *task, long number, const char *how);
void gs_explain_mappings(void);
void gs_trace(const struct task *task, long number);

/* ---- Whether the program gains (advice.c): with --explain ---- */

void gs_advice_start(void); /* by the runtime's first thread */
void gs_advice_count_threads(void);
void gs_advise(void); /* unless it has been given: the process ends */

/* ---- x86_64.S ---- */

void gs_run_restorer(void) __asm__("__restore_rt"); /* the name that gdb looks for */
void gs_run_start(void);
_Noreturn void gs_run_return(const greg_t *registers, const void *fpu_state, uint64_t features);
int gs_run_hand_over(void *registers, void *stack, void *thread_pointer, void (*fn)(void *));
void gs_run_call_on(void *stack, void (*fn)(void *), void *argument);
void gs_run_thread_entry(void);
long gs_run_clone(long flags, void *stack, void *parent_tid, void *child_tid, long tls, void *pc);

/* Memory of the program, which need not be there. Each returns 0 or -EFAULT. */
long gs_run_copy(void *to, const void *from, size_t n);
long gs_run_probe(const void *byte);
/* The instructions that access it, and where they continue if they cannot. */
extern const char gs_run_copy_access[], gs_run_probe_access[], gs_run_access_failed[];

/* ---- Dispatch (dispatch.c, calls.c) ---- */

void gs_dispatch_attach(struct carrier *carrier);
void gs_on_system_call(int number, siginfo_t *info, void *context);
/* Emulate a system call. context: NULL in wrappers. Inside. */
long gs_emulate(struct task *task, long number, const long *arguments, ucontext_t *context);

#endif
