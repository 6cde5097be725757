/* The cost of operations on buffers, with libevent's interface: PROGRAM FIGURE prints nanoseconds
 * per operation; if it does not know the figure, it exits with status 2. It is compiled with our
 * library and with libevent. */
#include "bench/threads/measure.h"

#include <event2/buffer.h>

#define ADDS 4000 /* in a round */
#define LINE 80
#define TEXT (256 * (size_t)1024)

static char text[TEXT]; /* lines of LINE characters */

static struct evbuffer *buffer_of(size_t n, size_t piece)
{
    struct evbuffer *buffer = evbuffer_new();
    must(buffer != NULL);
    for (size_t at = 0; at < n; at += piece)
        must(!evbuffer_add(buffer, text + at, piece));
    return buffer;
}

/* ---- Adding ---- */

/* Each buffer gets `total` bytes in pieces. */
static void add(size_t piece, size_t total)
{
    struct evbuffer *buffer = evbuffer_new();
    size_t count = total / piece;
    begin();
    for (size_t i = 0; i < count; i++)
        must(!evbuffer_add(buffer, text, piece));
    end((double)count);
    evbuffer_free(buffer);
}

static void add_16(void)
{
    add(16, 64000);
}

static void add_128(void)
{
    add(128, (size_t)ADDS * 128);
}

static void add_16384(void)
{
    add(16384, (size_t)16384 * 256);
}

/* A message comes, and is used. */
static void add_and_drain(void)
{
    struct evbuffer *buffer = evbuffer_new();
    begin();
    for (int i = 0; i < ADDS; i++) {
        must(!evbuffer_add(buffer, text, 128));
        must(!evbuffer_drain(buffer, 128));
    }
    end(ADDS);
    evbuffer_free(buffer);
}

/* ---- Draining ---- */

static void drain(size_t piece)
{
    struct evbuffer *buffer = buffer_of(TEXT, 1024);
    size_t count = TEXT / piece;
    begin();
    for (size_t i = 0; i < count; i++)
        must(!evbuffer_drain(buffer, piece));
    end((double)count);
    evbuffer_free(buffer);
}

static void drain_16(void)
{
    drain(16);
}

static void drain_4096(void)
{
    drain(4096);
}

static void remove_128(void)
{
    char bytes[128];
    struct evbuffer *buffer = buffer_of(TEXT, 1024);
    size_t count = TEXT / sizeof bytes;
    begin();
    for (size_t i = 0; i < count; i++)
        must(evbuffer_remove(buffer, bytes, sizeof bytes) == sizeof bytes);
    end((double)count);
    evbuffer_free(buffer);
}

/* ---- Searching ---- */

static void search(const char *what, ev_ssize_t expected)
{
    struct evbuffer *buffer = buffer_of(TEXT, 1024);
    must(!evbuffer_add(buffer, "the needle", 10));
    begin();
    for (int i = 0; i < 10; i++)
        must(evbuffer_search(buffer, what, strlen(what), NULL).pos == expected);
    end(10);
    evbuffer_free(buffer);
}

static void search_rare(void)
{
    search("needle", (ev_ssize_t)TEXT + 4);
}

/* Its first character is everywhere. */
static void search_common(void)
{
    search("abcdef#", -1);
}

static void read_lines(void)
{
    struct evbuffer *buffer = buffer_of(TEXT, 1024);
    begin();
    int count = 0;
    char *line;
    while ((line = evbuffer_readln(buffer, NULL, EVBUFFER_EOL_CRLF))) {
        free(line);
        count++;
    }
    end(count);
    evbuffer_free(buffer);
}

static void search_eol(void)
{
    struct evbuffer *buffer = buffer_of(TEXT, 1024);
    struct evbuffer_ptr at = {0};
    int count = 0;
    begin();
    for (;;) {
        at = evbuffer_search_eol(buffer, count ? &at : NULL, NULL, EVBUFFER_EOL_ANY);
        if (at.pos < 0 || evbuffer_ptr_set(buffer, &at, 2, EVBUFFER_PTR_ADD))
            break;
        count++;
    }
    end(count);
    evbuffer_free(buffer);
}

/* ---- Making contiguous ---- */

static void pullup(size_t n, size_t piece, size_t pulled)
{
    struct evbuffer *buffers[50];
    for (int i = 0; i < 50; i++)
        buffers[i] = buffer_of(n, piece);
    begin();
    for (int i = 0; i < 50; i++)
        must(evbuffer_pullup(buffers[i], (ev_ssize_t)pulled) != NULL);
    end(50);
    for (int i = 0; i < 50; i++)
        evbuffer_free(buffers[i]);
}

static void pullup_all(void)
{
    pullup(16384, 512, 16384);
}

/* A header that ends in the second chain. */
static void pullup_head(void)
{
    pullup(4096, 128, 1100);
}

/* What is contiguous already. */
static void pullup_same(void)
{
    struct evbuffer *buffer = buffer_of(512, 512);
    begin();
    for (int i = 0; i < ADDS; i++)
        must(evbuffer_pullup(buffer, 100) != NULL);
    end(ADDS);
    evbuffer_free(buffer);
}

static const struct figure {
    const char *name;
    void (*round)(void);
} figures[] = {
    {"add-16", add_16},
    {"add-128", add_128},
    {"add-16384", add_16384},
    {"add-and-drain", add_and_drain},
    {"drain-16", drain_16},
    {"drain-4096", drain_4096},
    {"remove-128", remove_128},
    {"search-rare", search_rare},
    {"search-common", search_common},
    {"search-eol", search_eol},
    {"readln", read_lines},
    {"pullup-all", pullup_all},
    {"pullup-head", pullup_head},
    {"pullup-same", pullup_same},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "\r\nabcdefghijklmnopqrstuvwxyz"[i % LINE < 2 ? i % LINE : 2 + i % 26];
    for (size_t i = 0; argc > 1 && i < sizeof figures / sizeof *figures; i++) {
        if (strcmp(argv[1], figures[i].name))
            continue;
        for (int round = 0; round < ROUNDS; round++)
            figures[i].round();
        printf("%.2f\n", best_ns);
        return 0;
    }
    return 2;
}
