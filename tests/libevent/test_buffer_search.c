#include "tests/libevent/bytes.h"

#include <event2/buffer_compat.h>

static ev_ssize_t find(struct evbuffer *buffer, const char *what)
{
    return evbuffer_search(buffer, what, strlen(what), NULL).pos;
}

TEST(a_string_is_found_within_and_across_chains)
{
    struct evbuffer *whole = buffer_with("aababcabcd"), *parts = scattered("aababcabcd");
    static const char *const strings[] = {"a",   "aa",          "ab",  "abc",  "abcd",
                                          "bcd", "d",           "dd",  "x",    "aababcabcd",
                                          "cab", "aababcabcde", "bab", "babc", "abcab"};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        CHECK_EQ(find(whole, strings[i]), find(parts, strings[i]));
        printf("%s at %zd\n", strings[i], find(parts, strings[i]));
    }
    evbuffer_free(whole);
    evbuffer_free(parts);
}

TEST(a_search_begins_and_ends_where_it_is_told)
{
    struct evbuffer *buffer = scattered("abcabcabc");
    struct evbuffer_ptr start, end, hit;
    CHECK_EQ(evbuffer_ptr_set(buffer, &start, 1, EVBUFFER_PTR_SET), 0);
    hit = evbuffer_search(buffer, "abc", 3, &start);
    CHECK_EQ(hit.pos, 3);
    CHECK_EQ(evbuffer_ptr_set(buffer, &hit, 1, EVBUFFER_PTR_ADD), 0);
    hit = evbuffer_search(buffer, "abc", 3, &hit);
    CHECK_EQ(hit.pos, 6);
    CHECK_EQ(evbuffer_ptr_set(buffer, &end, 5, EVBUFFER_PTR_SET), 0);
    CHECK_EQ(evbuffer_search_range(buffer, "abc", 3, &start, &end).pos, -1);
    CHECK_EQ(evbuffer_ptr_set(buffer, &end, 6, EVBUFFER_PTR_SET), 0);
    CHECK_EQ(evbuffer_search_range(buffer, "abc", 3, &start, &end).pos, 3);
    CHECK_EQ(evbuffer_ptr_set(buffer, &start, 9, EVBUFFER_PTR_SET), 0);
    CHECK_EQ(evbuffer_search(buffer, "a", 1, &start).pos, -1);
    CHECK_EQ(evbuffer_search(buffer, "", 0, NULL).pos, 0);
    evbuffer_free(buffer);
}

TEST(positions_are_within_the_buffer)
{
    struct evbuffer *buffer = scattered("abc");
    struct evbuffer_ptr position;
    CHECK_EQ(evbuffer_ptr_set(buffer, &position, 3, EVBUFFER_PTR_SET), 0);
    CHECK_EQ(position.pos, 3);
    CHECK_EQ(evbuffer_ptr_set(buffer, &position, 0, EVBUFFER_PTR_ADD), 0);
    CHECK_EQ(evbuffer_ptr_set(buffer, &position, 1, EVBUFFER_PTR_ADD), -1);
    CHECK_EQ(position.pos, -1);
    CHECK_EQ(evbuffer_ptr_set(buffer, &position, 1, EVBUFFER_PTR_ADD), -1);
    CHECK_EQ(evbuffer_ptr_set(buffer, &position, 4, EVBUFFER_PTR_SET), -1);
    CHECK_EQ(evbuffer_ptr_set(buffer, &position, 1, EVBUFFER_PTR_SET), 0);
    CHECK_EQ(evbuffer_ptr_set(buffer, &position, (size_t)-1, EVBUFFER_PTR_ADD), -1);
    evbuffer_free(buffer);
    buffer = evbuffer_new();
    CHECK_EQ(evbuffer_ptr_set(buffer, &position, 0, EVBUFFER_PTR_SET), 0);
    CHECK_EQ(evbuffer_ptr_set(buffer, &position, 1, EVBUFFER_PTR_SET), -1);
    CHECK_EQ(evbuffer_search(buffer, "a", 1, NULL).pos, -1);
    evbuffer_free(buffer);
}

/* Print all lines of a text, and what remains. */
static void print_lines(const char *text, size_t n, enum evbuffer_eol_style style, int is_scattered)
{
    struct evbuffer *buffer = evbuffer_new();
    for (size_t i = 0; is_scattered && i < n; i++)
        evbuffer_add_reference(buffer, text + i, 1, NULL, NULL);
    if (!is_scattered)
        evbuffer_add(buffer, text, n);
    char *line;
    size_t length;
    while ((line = evbuffer_readln(buffer, &length, style))) {
        printf(" <%zu>", length);
        for (size_t i = 0; i < length; i++)
            printf(line[i] < ' ' ? "\\%d" : "%c", line[i]);
        CHECK_EQ(line[length], 0);
        free(line);
    }
    CHECK_EQ(length, 0);
    printf(" rest %zu\n", evbuffer_get_length(buffer));
    evbuffer_free(buffer);
}

TEST(lines_end_as_their_style_says)
{
    static const char text[] = "one\r\ntwo\nthree\rfour\n\rfive\0six\r\r\n\nseven\r\n\r\neight\r";
    for (int style = EVBUFFER_EOL_ANY; style <= EVBUFFER_EOL_NUL; style++) {
        for (int is_scattered = 0; is_scattered < 2; is_scattered++) {
            printf("style %d:", style);
            print_lines(text, sizeof text - 1, (enum evbuffer_eol_style)style, is_scattered);
        }
    }
}

TEST(the_end_of_a_line_is_found_from_a_position)
{
    struct evbuffer *buffer = scattered("a\r\nb\r\n\r\n");
    struct evbuffer_ptr start;
    size_t length;
    for (size_t i = 0; i <= evbuffer_get_length(buffer); i++) {
        for (int style = EVBUFFER_EOL_ANY; style <= EVBUFFER_EOL_NUL; style++) {
            CHECK_EQ(evbuffer_ptr_set(buffer, &start, i, EVBUFFER_PTR_SET), 0);
            struct evbuffer_ptr end =
                evbuffer_search_eol(buffer, &start, &length, (enum evbuffer_eol_style)style);
            printf("%zd+%zu ", end.pos, length);
        }
    }
    printf("\n");
    CHECK_EQ(evbuffer_search_eol(buffer, NULL, NULL, EVBUFFER_EOL_LF).pos, 2);
    evbuffer_free(buffer);
}

TEST(the_names_of_version_1_find_strings_and_lines)
{
    struct evbuffer *buffer = scattered("head: value\r\n\r\nbody");
    unsigned char *found = evbuffer_find(buffer, (const unsigned char *)"value", 5);
    CHECK(found != NULL);
    CHECK_EQ(memcmp(found, "value", 5), 0);
    CHECK(!evbuffer_find(buffer, (const unsigned char *)"values", 6));
    char *line = evbuffer_readline(buffer);
    CHECK_STR(line, "head: value");
    free(line);
    CHECK(!evbuffer_readline(buffer));
    CHECK_EQ(EVBUFFER_LENGTH(buffer), 4);
    CHECK_EQ(memcmp(EVBUFFER_DATA(buffer), "body", 4), 0);
    evbuffer_free(buffer);
}
