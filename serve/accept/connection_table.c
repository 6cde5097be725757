#include "serve/accept/connection_table.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t size_of(unsigned entries)
{
    return sizeof(struct serve_table) + (size_t)entries * sizeof(struct serve_entry);
}

int serve_table_new(unsigned size, bool has_processes, struct serve_table **ret_table)
{
    struct serve_table *table =
        mmap(NULL, size_of(size), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED)
        return -ENOMEM;
    table->size = size;
    table->has_processes = has_processes;
    table->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    table->full_fd = gs_sys_eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (table->full_fd < 0) {
        int err = table->full_fd;
        serve_table_free(table);
        return err;
    }
    *ret_table = table;
    return 0;
}

void serve_table_free(struct serve_table *table)
{
    if (!table)
        return;
    if (table->full_fd >= 0)
        gs_sys_close(table->full_fd);
    munmap(table, size_of(table->size));
}

/* ---- In a process that has one connection: the signal that ends its wait ---- */

static struct serve_entry *_Atomic own_entry;

/* The handler interrupts the owner: what it reads does not change meanwhile. A signal that comes
 * too late finds another number. */
static void on_evict_signal(int number)
{
    struct serve_entry *entry = atomic_load(&own_entry);
    (void)number;
    if (!entry)
        return;
    uint64_t waits = atomic_load(&entry->waits);
    if (waits != SERVE_BUSY && waits == atomic_load(&entry->evicted))
        gs_sys_shutdown(atomic_load(&entry->fd), SHUT_RD);
}

static void handle_signal(struct serve_entry *entry)
{
    static bool is_handled;
    const struct sigaction action = {.sa_handler = on_evict_signal, .sa_flags = SA_RESTART};
    atomic_store(&own_entry, entry);
    if (is_handled)
        return;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGURG);
    sigaction(SIGURG, &action, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    is_handled = true;
}

/* ---- Entries ---- */

/* Sequentially consistent, here and in serve_table_is_full: of a thread that takes the last entry
 * and one that begins to watch, at least one sees the other. */
static void count_entry(struct serve_table *table)
{
    if (atomic_fetch_add(&table->used, 1) + 1 >= table->size)
        serve_table_watch(table);
}

void serve_table_watch(struct serve_table *table)
{
    static const uint64_t one = 1;
    if (atomic_exchange(&table->is_watched, false))
        gs_sys_write(table->full_fd, &one, sizeof one);
}

struct serve_entry *serve_table_add(struct serve_table *table, int fd, uint64_t address)
{
    unsigned start = atomic_load_explicit(&table->hint, memory_order_relaxed);
    pid_t pid = getpid();
    for (unsigned i = 0; i < table->size; i++) {
        struct serve_entry *entry = &table->entries[(start + i) % table->size];
        pid_t none = 0;
        if (atomic_load_explicit(&entry->owner, memory_order_relaxed) ||
            !atomic_compare_exchange_strong(&entry->owner, &none, pid))
            continue;
        atomic_store(&entry->fd, fd);
        atomic_store(&entry->address, address);
        if (table->has_processes)
            handle_signal(entry);
        count_entry(table);
        return entry;
    }
    return NULL;
}

static void free_entry(struct serve_table *table, struct serve_entry *entry)
{
    atomic_store_explicit(&table->hint, (unsigned)(entry - table->entries), memory_order_relaxed);
    atomic_fetch_sub(&table->used, 1);
    atomic_store(&entry->owner, 0);
}

void serve_table_remove(struct serve_table *table, struct serve_entry *entry)
{
    if (table->has_processes) {
        atomic_store(&own_entry, NULL);
        atomic_store(&entry->waits, SERVE_BUSY);
    } else {
        pthread_mutex_lock(&table->lock);
        atomic_store(&entry->waits, SERVE_BUSY);
        pthread_mutex_unlock(&table->lock);
    }
    free_entry(table, entry);
}

bool serve_table_is_full(struct serve_table *table)
{
    if (atomic_load(&table->used) >= table->size)
        return true;
    atomic_exchange(&table->is_watched, true);
    return atomic_load(&table->used) >= table->size && atomic_exchange(&table->is_watched, false);
}

/* ---- Choosing one ---- */

/* A process that was killed has left its entry. */
static bool is_gone(struct serve_table *table, struct serve_entry *entry, pid_t owner)
{
    if (!table->has_processes || !kill(owner, 0) || errno != ESRCH)
        return false;
    atomic_store(&entry->waits, SERVE_BUSY);
    free_entry(table, entry);
    return true;
}

/* Whether the wait was ended before. A signal may have arrived at a moment when the process did not
 * wait: it is sent again. */
static bool is_ending(const struct serve_table *table, struct serve_entry *entry, uint64_t waits,
                      pid_t owner)
{
    bool is_evicted = waits != SERVE_BUSY && waits == atomic_load(&entry->evicted);
    if (is_evicted && table->has_processes)
        kill(owner, SIGURG);
    return is_evicted;
}

/* Without those whose wait was ended before. */
static void gather(struct serve_table *table, struct serve_candidates *candidates)
{
    for (unsigned i = 0; i < table->size && candidates->count < SERVE_EVICTION_CANDIDATES; i++) {
        struct serve_entry *entry = &table->entries[table->next];
        table->next = (table->next + 1) % table->size;
        uint64_t waits = atomic_load(&entry->waits);
        pid_t owner = atomic_load(&entry->owner);
        if (!owner || is_gone(table, entry, owner) || is_ending(table, entry, waits, owner))
            continue;
        serve_candidates_add(candidates, entry, atomic_load(&entry->address), waits);
    }
}

/* Returns false if it has ended by itself. */
static bool end_wait(struct serve_table *table, struct serve_entry *entry)
{
    pthread_mutex_lock(&table->lock);
    uint64_t waits = atomic_load(&entry->waits);
    pid_t owner = atomic_load(&entry->owner);
    bool still_waits = waits != SERVE_BUSY && owner;
    if (still_waits)
        atomic_store(&entry->evicted, waits);
    if (still_waits && table->has_processes)
        kill(owner, SIGURG);
    else if (still_waits)
        gs_sys_shutdown(atomic_load(&entry->fd), SHUT_RD);
    pthread_mutex_unlock(&table->lock);
    return still_waits;
}

unsigned serve_table_evict(struct serve_table *table, unsigned max, uint64_t crowd_before_ns,
                           uint64_t before_ns)
{
    struct serve_candidates candidates;
    struct serve_entry *entry;
    unsigned count = 0;
    serve_candidates_init(&candidates);
    candidates.crowd_before_ns = crowd_before_ns;
    candidates.before_ns = before_ns;
    gather(table, &candidates);
    while (count < max && (entry = serve_candidates_take(&candidates)))
        count += end_wait(table, entry);
    return count;
}
