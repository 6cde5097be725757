#include "serve/operations/compressor.h"

#include "http/page.h"

#include "serve/operations/encode.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define BUCKETS 4096
#define ENTRIES_MAX (4 * BUCKETS)

/* Pages that wait, each of which may keep a file open. Others are asked for again. */
#define QUEUE_MAX 64

/* The thread's, so that it takes what requests leave of the processors. */
#define NICE 10

/* A version of a file in a coding. */
struct key {
    uint64_t words[8];
};

enum state {
    WAITING,
    CODED,
    USELESS, /* compression saves too little */
};

/* Waiting, it is in the queue, or what the thread is at; otherwise, it is in the list by use. */
struct entry {
    struct entry *next_same_bucket;
    struct entry *newer, *older;
    struct key key;
    uint32_t hash;
    enum state state;
    enum gs_http_coding coding;
    struct gs_http_page *page;   /* while it waits */
    struct gs_http_coded *coded; /* a reference; NULL: none */
};

struct list {
    struct entry *oldest, *newest;
};

struct serve_compressor {
    struct gs_http_compressor http;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_over;
    size_t max_bytes;
    unsigned count, waiting;
    struct list queue, used;
    struct serve_compressor_counts counts;
    struct entry *buckets[BUCKETS];
};

/* ---- The table ---- */

static struct key key_of(const struct gs_http_page *page, enum gs_http_coding coding)
{
    const struct stat *stat = &page->stat;
    return (struct key){{stat->st_dev, stat->st_ino, (uint64_t)stat->st_size,
                         (uint64_t)stat->st_mtim.tv_sec, (uint64_t)stat->st_mtim.tv_nsec,
                         (uint64_t)stat->st_ctim.tv_sec, (uint64_t)stat->st_ctim.tv_nsec, coding}};
}

static uint32_t hash_of(const struct key *key)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof key->words / sizeof *key->words; i++) {
        hash = (hash ^ key->words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

static struct entry **find(struct serve_compressor *compressor, const struct key *key,
                           uint32_t hash)
{
    struct entry **link = &compressor->buckets[hash % BUCKETS];
    while (*link && ((*link)->hash != hash || memcmp(&(*link)->key, key, sizeof *key) != 0))
        link = &(*link)->next_same_bucket;
    return link;
}

static void append(struct list *list, struct entry *entry)
{
    entry->newer = NULL;
    entry->older = list->newest;
    if (list->newest)
        list->newest->newer = entry;
    else
        list->oldest = entry;
    list->newest = entry;
}

static void take_out(struct list *list, struct entry *entry)
{
    if (entry->newer)
        entry->newer->older = entry->older;
    else
        list->newest = entry->older;
    if (entry->older)
        entry->older->newer = entry->newer;
    else
        list->oldest = entry->newer;
}

static size_t size_of(const struct entry *entry)
{
    return sizeof *entry + (entry->coded ? sizeof *entry->coded + entry->coded->n : 0);
}

/* Of an entry that is in no list. */
static void forget(struct serve_compressor *compressor, struct entry *entry)
{
    *find(compressor, &entry->key, entry->hash) = entry->next_same_bucket;
    compressor->count--;
    compressor->counts.bytes -= size_of(entry);
    gs_http_coded_unref(entry->coded);
    free(entry);
}

static void limit(struct serve_compressor *compressor)
{
    struct entry *oldest;
    while ((oldest = compressor->used.oldest) &&
           (compressor->counts.bytes > compressor->max_bytes || compressor->count > ENTRIES_MAX)) {
        take_out(&compressor->used, oldest);
        forget(compressor, oldest);
    }
}

/* ---- Workers ---- */

static struct entry *enqueue(struct serve_compressor *compressor, struct gs_http_page *page,
                             enum gs_http_coding coding, const struct key *key, uint32_t hash)
{
    struct entry **bucket = &compressor->buckets[hash % BUCKETS];
    struct entry *entry = compressor->waiting < QUEUE_MAX ? malloc(sizeof *entry) : NULL;
    if (!entry)
        return NULL;
    *entry = (struct entry){
        .next_same_bucket = *bucket,
        .key = *key,
        .hash = hash,
        .state = WAITING,
        .coding = coding,
        .page = gs_http_page_ref(page),
    };
    *bucket = entry;
    compressor->count++;
    compressor->waiting++;
    compressor->counts.bytes += size_of(entry);
    append(&compressor->queue, entry);
    limit(compressor);
    pthread_cond_signal(&compressor->wake);
    return entry;
}

static int get(struct gs_http_page *page, enum gs_http_coding coding,
               struct gs_http_coded **ret_coded, void *data)
{
    struct serve_compressor *compressor = data;
    struct key key = key_of(page, coding);
    uint32_t hash = hash_of(&key);
    int err = -EAGAIN;
    if (compressor->max_bytes < sizeof(struct entry))
        return -ENODATA;
    pthread_mutex_lock(&compressor->lock);
    struct entry *entry = *find(compressor, &key, hash);
    if (!entry)
        enqueue(compressor, page, coding, &key, hash);
    if (entry && entry->state != WAITING) {
        take_out(&compressor->used, entry);
        append(&compressor->used, entry);
        err = entry->state == CODED ? 0 : -ENODATA;
        *ret_coded = entry->coded;
    }
    if (!err)
        atomic_fetch_add_explicit(&entry->coded->references, 1, memory_order_relaxed);
    pthread_mutex_unlock(&compressor->lock);
    return err;
}

/* ---- The thread ---- */

static int read_all(int fd, char *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t got = gs_sys_pread(fd, bytes + at, n - at, (off_t)at);
        if (!got)
            return -EAGAIN;
        if (got < 0 && got != -EINTR)
            return (int)got;
        at += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

/* Returns -EAGAIN if it is another version now: its page will be another, too. */
static int encode_file(const struct gs_http_page *page, enum gs_http_coding coding,
                       struct gs_http_coded **ret_coded)
{
    size_t n = (size_t)page->stat.st_size;
    struct stat stat;
    char *bytes = malloc(n);
    int err = bytes ? read_all(page->fd, bytes, n) : -ENOMEM;
    if (!err)
        err = gs_sys_fstat(page->fd, &stat);
    if (!err && !gs_http_page_is_same_file(&page->stat, &stat))
        err = -EAGAIN;
    if (!err)
        err = serve_encode(coding, bytes, n, ret_coded);
    free(bytes);
    return err;
}

static int encode(const struct gs_http_page *page, enum gs_http_coding coding,
                  struct gs_http_coded **ret_coded)
{
    return page->body ? serve_encode(coding, page->body, (size_t)page->stat.st_size, ret_coded)
                      : encode_file(page, coding, ret_coded);
}

/* What has failed for lack of memory, or of a file, is tried again when it is asked for. */
static void settle(struct serve_compressor *compressor, struct entry *entry, int err,
                   struct gs_http_coded *coded)
{
    compressor->waiting--;
    if (coded && sizeof *entry + sizeof *coded + coded->n > compressor->max_bytes) {
        gs_http_coded_unref(coded);
        coded = NULL;
        err = -ENODATA;
    }
    if (err && err != -ENODATA) {
        forget(compressor, entry);
        return;
    }
    entry->page = NULL;
    entry->coded = coded;
    entry->state = err ? USELESS : CODED;
    compressor->counts.bytes += coded ? sizeof *coded + coded->n : 0;
    compressor->counts.compressed += !err;
    compressor->counts.dropped += err != 0;
    append(&compressor->used, entry);
    limit(compressor);
}

static void *run(void *data)
{
    struct serve_compressor *compressor = data;
    (void)setpriority(PRIO_PROCESS, 0, NICE);
    pthread_mutex_lock(&compressor->lock);
    for (;;) {
        while (!compressor->queue.oldest && !compressor->is_over)
            pthread_cond_wait(&compressor->wake, &compressor->lock);
        if (compressor->is_over)
            break;
        struct entry *entry = compressor->queue.oldest;
        struct gs_http_page *page = entry->page;
        struct gs_http_coded *coded = NULL;
        take_out(&compressor->queue, entry);
        pthread_mutex_unlock(&compressor->lock);
        int err = encode(page, entry->coding, &coded);
        pthread_mutex_lock(&compressor->lock);
        settle(compressor, entry, err, coded);
        pthread_mutex_unlock(&compressor->lock);
        gs_http_page_unref(page);
        pthread_mutex_lock(&compressor->lock);
    }
    pthread_mutex_unlock(&compressor->lock);
    return NULL;
}

/* ---- Its life ---- */

int serve_compressor_start(unsigned codings, size_t max_bytes,
                           struct serve_compressor **ret_compressor)
{
    struct serve_compressor *compressor = calloc(1, sizeof *compressor);
    sigset_t all, before;
    if (!compressor)
        return -ENOMEM;
    compressor->http = (struct gs_http_compressor){codings, get, compressor};
    compressor->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    compressor->wake = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    compressor->max_bytes = max_bytes;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int err = -pthread_create(&compressor->thread, NULL, run, compressor);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err) {
        free(compressor);
        return err;
    }
    *ret_compressor = compressor;
    return 0;
}

const struct gs_http_compressor *serve_compressor_http(const struct serve_compressor *compressor)
{
    return compressor ? &compressor->http : NULL;
}

struct serve_compressor_counts serve_compressor_count(struct serve_compressor *compressor)
{
    pthread_mutex_lock(&compressor->lock);
    struct serve_compressor_counts counts = compressor->counts;
    pthread_mutex_unlock(&compressor->lock);
    return counts;
}

static void forget_all(struct serve_compressor *compressor, struct list *list)
{
    for (struct entry *entry = list->oldest, *newer; entry; entry = newer) {
        newer = entry->newer;
        gs_http_page_unref(entry->page);
        forget(compressor, entry);
    }
}

void serve_compressor_stop(struct serve_compressor *compressor)
{
    if (!compressor)
        return;
    pthread_mutex_lock(&compressor->lock);
    compressor->is_over = true;
    pthread_cond_signal(&compressor->wake);
    pthread_mutex_unlock(&compressor->lock);
    pthread_join(compressor->thread, NULL);
    forget_all(compressor, &compressor->queue);
    forget_all(compressor, &compressor->used);
    pthread_cond_destroy(&compressor->wake);
    pthread_mutex_destroy(&compressor->lock);
    free(compressor);
}
