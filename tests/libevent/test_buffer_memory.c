#include "tests/libevent/bytes.h"
#include "tests/libevent/failing_memory.h"

/* ---- Operations that need memory, on "abc" and "def" ---- */

static char many[5000];

static bool do_add(struct evbuffer *buffer, struct evbuffer *other)
{
    (void)other;
    return !evbuffer_add(buffer, many, sizeof many);
}

static bool do_prepend(struct evbuffer *buffer, struct evbuffer *other)
{
    (void)other;
    return !evbuffer_prepend(buffer, many, sizeof many);
}

static bool do_reference(struct evbuffer *buffer, struct evbuffer *other)
{
    (void)other;
    return !evbuffer_add_reference(buffer, many, sizeof many, NULL, NULL);
}

static bool do_printf(struct evbuffer *buffer, struct evbuffer *other)
{
    (void)other;
    return evbuffer_add_printf(buffer, "%5000d", 7) == 5000;
}

static bool do_expand(struct evbuffer *buffer, struct evbuffer *other)
{
    (void)other;
    return !evbuffer_expand(buffer, sizeof many);
}

static bool do_reserve(struct evbuffer *buffer, struct evbuffer *other)
{
    struct evbuffer_iovec extents[2];
    (void)other;
    return evbuffer_reserve_space(buffer, sizeof many, extents, 2) > 0;
}

static bool do_iovec(struct evbuffer *buffer, struct evbuffer *other)
{
    struct evbuffer_iovec extents[2] = {{many, sizeof many}, {many, 3}};
    (void)other;
    return evbuffer_add_iovec(buffer, extents, 2) > 0;
}

static bool do_pullup(struct evbuffer *buffer, struct evbuffer *other)
{
    return !evbuffer_add_buffer(buffer, other) && evbuffer_pullup(buffer, -1);
}

static bool do_remove_buffer(struct evbuffer *buffer, struct evbuffer *other)
{
    return evbuffer_remove_buffer(other, buffer, 2) == 2;
}

static bool do_readln(struct evbuffer *buffer, struct evbuffer *other)
{
    char *line = evbuffer_readln(other, NULL, EVBUFFER_EOL_LF);
    (void)buffer;
    if (!line)
        return false;
    CHECK_STR(line, "def");
    count_free(line);
    return true;
}

static bool do_file(struct evbuffer *buffer, struct evbuffer *other)
{
    int fd = memfd_create("file", MFD_CLOEXEC);
    CHECK_EQ(write(fd, "file", 4), 4);
    (void)other;
    return !evbuffer_add_file(buffer, fd, 0, 4);
}

static bool do_callback(struct evbuffer *buffer, struct evbuffer *other)
{
    (void)other;
    return evbuffer_add_cb(buffer, (evbuffer_cb_func)abort, NULL);
}

static bool (*const operations[])(struct evbuffer *, struct evbuffer *) = {
    do_add,   do_prepend, do_reference,     do_printf, do_expand, do_reserve,
    do_iovec, do_pullup,  do_remove_buffer, do_readln, do_file,   do_callback,
};

/* The bytes are "abc" and "def\n", in one buffer or in both. */
static void check_unchanged(struct evbuffer *buffer, struct evbuffer *other)
{
    char bytes[16] = "";
    CHECK_EQ(evbuffer_get_length(buffer) + evbuffer_get_length(other), 7);
    CHECK(evbuffer_copyout(buffer, bytes, 7) >= 3);
    CHECK(evbuffer_copyout(other, bytes + evbuffer_get_length(buffer), 7) >= 0);
    CHECK_STR(bytes, "abcdef\n");
}

TEST(an_operation_without_memory_fails_and_changes_nothing)
{
    count_memory();
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        int failures = 0;
        bool is_done = false;
        while (!is_done) {
            struct evbuffer *buffer = evbuffer_new(), *other = scattered("def\n");
            CHECK_EQ(evbuffer_add_reference(buffer, "abc", 3, NULL, NULL), 0);
            has_failed = false;
            allowed = failures;
            is_done = operations[i](buffer, other);
            allowed = -1;
            CHECK(is_done || has_failed);
            if (!is_done)
                check_unchanged(buffer, other);
            evbuffer_free(buffer);
            evbuffer_free(other);
            CHECK(failures++ < 20);
        }
        CHECK_EQ(blocks, 0);
    }
}

TEST(a_buffer_without_memory_is_none)
{
    allowed = 0;
    struct evbuffer *buffer = evbuffer_new();
    allowed = -1;
    CHECK(!buffer);
}
