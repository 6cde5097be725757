/* The program has installed a handler for SIGSEGV before the run: the handler gets each fault that
 * is no stack overflow, and stack overflows are still reported. */
#include "tests/thread/stack/overflow.h"

#include <ucontext.h>

static char *volatile page;
static unsigned workers;
static atomic_int handled;

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void forbid(void)
{
    MUST_EQ(mprotect(page, page_bytes(), PROT_NONE), 0);
}

/* If the handler cannot repair the fault, the fault is repeated and ends the program. */
static void repair(const char *address)
{
    if (address && (address < page || address >= page + page_bytes())) {
        signal(SIGSEGV, SIG_DFL);
        return;
    }
    MUST_EQ(mprotect(page, page_bytes(), PROT_READ | PROT_WRITE), 0);
    atomic_fetch_add(&handled, 1);
}

static sigset_t blocked_signals(void)
{
    sigset_t blocked;
    MUST_EQ(pthread_sigmask(SIG_BLOCK, NULL, &blocked), 0);
    return blocked;
}

/* The handler must run with the signal mask that the kernel would set; the thread sanitizer blocks
 * signals itself. */
static void check_blocked(bool is_deferred)
{
    sigset_t blocked = blocked_signals();
    MUST(GS_TSAN || sigismember(&blocked, SIGSEGV) == is_deferred);
    MUST(sigismember(&blocked, SIGUSR1));
}

static void previous_with_info(int number, siginfo_t *info, void *context)
{
    MUST(number == SIGSEGV && context);
    check_blocked(true);
    repair(info->si_code > 0 ? info->si_addr : NULL);
}

static volatile sig_atomic_t is_page_repaired;

static void previous_without_info(int number)
{
    MUST(number == SIGSEGV);
    check_blocked(false);
    repair(is_page_repaired ? page - 1 : page);
}

static void set_previous(bool has_info)
{
    struct sigaction action = {.sa_flags = has_info ? SA_SIGINFO : SA_NODEFER};
    if (has_info)
        action.sa_sigaction = previous_with_info;
    else
        action.sa_handler = previous_without_info;
    sigaddset(&action.sa_mask, SIGUSR1);
    MUST_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    page = mmap(NULL, page_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(page != MAP_FAILED);
}

/* Each fault is repaired, and the instruction is repeated. */
static void *fault_again_and_again(void *unused)
{
    for (int i = 0; i < 10; i++) {
        sigset_t before = blocked_signals();
        forbid();
        page[i] = (char)('a' + i);
        MUST_EQ(atomic_load(&handled), i + 1);
        MUST_EQ(page[i], 'a' + i);
        sigset_t now = blocked_signals();
        for (int number = 1; number < 32; number++)
            MUST_EQ(sigismember(&now, number), sigismember(&before, number));
        gs_thread_yield();
    }
    is_page_repaired = true;
    return unused;
}

static void *fault_and_end(void *unused)
{
    join(spawn(fault_again_and_again, NULL));
    return unused;
}

static void *fault_and_overflow(void *unused)
{
    fault_and_end(unused);
    join(spawn_named("glutton", overflow_stack, NULL));
    return unused;
}

static bool has_info;

static void run_faulting(void)
{
    struct sigaction before, now;
    set_previous(has_info);
    sigaction(SIGSEGV, NULL, &before);
    run_reporting(workers, fault_and_end, 0);
    sigaction(SIGSEGV, NULL, &now);
    MUST(now.sa_sigaction == before.sa_sigaction && now.sa_flags == before.sa_flags);
    atomic_store(&handled, 0);
    is_page_repaired = false;
    run_reporting(workers, fault_and_overflow, 0);
}

TEST(previous_handler_repairs_each_fault_and_overflows_are_still_reported)
{
    for (int i = 0; i < 4; i++) {
        workers = i % 2 ? 3 : 1;
        has_info = i / 2;
        CHECK(is_segv(in_child(run_faulting)));
        CHECK_REPORTED("^stack overflow: thread \"glutton\" needs more than its [0-9]+ bytes$");
    }
}

/* ---- A call of NULL ----
 * The undefined behaviour sanitizer reads what is before the function. */

#if defined(__x86_64__) && !GS_ASAN && !GS_TSAN
static void exit_if_pc_is_null(int number, siginfo_t *info, void *context)
{
    const mcontext_t *machine = &((const ucontext_t *)context)->uc_mcontext;
    (void)number;
    _exit(!info->si_addr && !machine->gregs[REG_RIP] ? 7 : 8);
}

static void (*volatile missing)(void);

static void *call_missing(void *unused)
{
    missing();
    return unused;
}

static void run_calling_missing(void)
{
    const struct sigaction action = {.sa_flags = SA_SIGINFO, .sa_sigaction = exit_if_pc_is_null};
    MUST_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    run_reporting(workers, call_missing, 0);
}

TEST(previous_handler_gets_the_context_of_a_call_of_null)
{
    for (workers = 1; workers < 4; workers += 2) {
        int status = in_child(run_calling_missing);
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), 7);
    }
}
#endif

/* ---- Signals sent by kill or raise ---- */

static void send_both_ways(void)
{
    raise(SIGSEGV);
    kill(getpid(), SIGSEGV);
}

static void *send_to_handler(void *unused)
{
    send_both_ways();
    while (atomic_load(&handled) < 2)
        gs_thread_yield();
    join(spawn_named("glutton", overflow_stack, NULL));
    return unused;
}

static void run_sending_to_handler(void)
{
    set_previous(true);
    run_reporting(workers, send_to_handler, 0);
}

TEST(previous_handler_gets_signals_that_were_sent_and_overflows_are_still_reported)
{
    for (workers = 1; workers < 4; workers += 2) {
        CHECK(is_segv(in_child(run_sending_to_handler)));
        CHECK_REPORTED("^stack overflow: thread \"glutton\" needs more than its [0-9]+ bytes$");
    }
}

static gs_thread_fn *after_sending;

static void *send_to_nobody(void *unused)
{
    for (int i = 0; i < 3; i++)
        send_both_ways();
    if (after_sending)
        join(spawn_named("last", after_sending, NULL));
    return unused;
}

static void run_ignoring(void)
{
    signal(SIGSEGV, SIG_IGN);
    run_reporting(workers, send_to_nobody, 0);
    MUST(signal(SIGSEGV, SIG_DFL) == SIG_IGN);
}

static void *fault(void *unused)
{
    page = mmap(NULL, page_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[0] = 'x';
    return unused;
}

TEST(signals_that_are_sent_are_ignored_where_they_were_and_faults_are_not)
{
    for (workers = 1; workers < 4; workers += 2) {
        after_sending = NULL;
        CHECK_EQ(in_child(run_ignoring), 0);
        CHECK_STR(report, "");
        after_sending = overflow_stack;
        CHECK(is_segv(in_child(run_ignoring)));
        CHECK_REPORTED("^stack overflow: thread \"last\" needs more than its [0-9]+ bytes$");
        after_sending = fault;
        CHECK(is_segv(in_child(run_ignoring)));
        CHECK(!is_reported("stack overflow"));
    }
}
