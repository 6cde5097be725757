#include "http/output.h"
#include "tests/test.h"

static struct gs_http_output *output;
static struct gs_http_page *memory_page, *file_page;

static void start(void)
{
    struct stat stat = {.st_size = 10};
    memory_page = gs_http_page_new(GS_HTTP_TEXT("m"), &stat, NULL, GS_HTTP_PAGE_IN_MEMORY);
    file_page = gs_http_page_new(GS_HTTP_TEXT("f"), &stat, NULL, 0);
    CHECK(memory_page && file_page);
    memcpy(memory_page->body, "0123456789", 10);
    CHECK((output = gs_http_output_new(GS_HTTP_OUTPUT_SEGMENTS, GS_HTTP_OUTPUT_BYTES)));
}

static void stop(void)
{
    gs_http_output_done(output);
    free(output);
    CHECK_EQ(memory_page->references, 1);
    CHECK_EQ(file_page->references, 1);
    gs_http_page_unref(memory_page);
    gs_http_page_unref(file_page);
}

#define OUTPUT_TEST(name_) FIXTURE_TEST(name_, start(), stop())

OUTPUT_TEST(consecutive_texts_are_one_piece)
{
    gs_http_output_put(output, GS_HTTP_TEXT("one "));
    gs_http_output_put(output, GS_HTTP_TEXT("two"));
    gs_http_output_put(output, GS_HTTP_TEXT(""));
    memcpy(gs_http_output_extend(output, 3), " 3.", 3);
    CHECK_EQ(output->count, 1);
    CHECK_EQ(output->segments[0].piece.n, 10);
    CHECK(!memcmp(output->segments[0].piece.bytes, "one two 3.", 10));
    CHECK_EQ(output->end, 10);
}

OUTPUT_TEST(bodies_are_borrowed_from_their_pages)
{
    gs_http_output_put_body(output, memory_page, 2, 3);
    gs_http_output_put(output, GS_HTTP_TEXT("x"));
    gs_http_output_put_body(output, file_page, 4, 6);
    gs_http_output_put_body(output, file_page, 0, 0);
    CHECK_EQ(output->count, 3);
    CHECK_EQ(memory_page->references, 2);
    CHECK_EQ(file_page->references, 2);
    CHECK(output->segments[0].piece.bytes == memory_page->body + 2);
    CHECK_EQ(output->segments[0].piece.n, 3);
    CHECK(!output->segments[2].piece.bytes);
    CHECK_EQ(output->segments[2].piece.offset, 4);
    CHECK_EQ(output->end, 10);
}

OUTPUT_TEST(output_advances_through_pieces_and_releases_them)
{
    gs_http_output_put(output, GS_HTTP_TEXT("abc"));
    gs_http_output_put_body(output, memory_page, 0, 10);
    gs_http_output_put_body(output, file_page, 1, 9);
    gs_http_output_advance(output, 2);
    CHECK_EQ(output->first, 0);
    CHECK_EQ(*output->segments[0].piece.bytes, 'c');
    gs_http_output_advance(output, 5);
    CHECK_EQ(output->first, 1);
    CHECK_EQ(*output->segments[1].piece.bytes, '4');
    CHECK_EQ(memory_page->references, 2);
    gs_http_output_advance(output, 6);
    CHECK_EQ(memory_page->references, 1);
    CHECK_EQ(output->first, 2);
    gs_http_output_advance(output, 8);
    CHECK_EQ(output->segments[2].piece.offset, 9);
    CHECK_EQ(output->segments[2].piece.n, 1);
    gs_http_output_advance(output, 1);
    CHECK_EQ(output->first, output->count);
    CHECK_EQ(output->position, output->end);
    CHECK_EQ(file_page->references, 1);
}

OUTPUT_TEST(text_after_a_sent_piece_starts_another)
{
    gs_http_output_put(output, GS_HTTP_TEXT("abc"));
    gs_http_output_advance(output, 1);
    gs_http_output_put(output, GS_HTTP_TEXT("d"));
    CHECK_EQ(output->count, 1);
    CHECK_EQ(output->segments[0].piece.n, 3);
    gs_http_output_advance(output, 3);
    gs_http_output_put(output, GS_HTTP_TEXT("e"));
    CHECK_EQ(output->count, 2);
    CHECK_EQ(*output->segments[1].piece.bytes, 'e');
}

OUTPUT_TEST(room_is_counted_in_bytes_and_in_pieces)
{
    CHECK(gs_http_output_has_room(output, GS_HTTP_OUTPUT_BYTES, GS_HTTP_OUTPUT_SEGMENTS));
    CHECK(!gs_http_output_has_room(output, GS_HTTP_OUTPUT_BYTES + 1, 1));
    gs_http_output_put_body(output, memory_page, 0, 10);
    CHECK(!gs_http_output_has_room(output, 1, GS_HTTP_OUTPUT_SEGMENTS));
    gs_http_output_extend(output, GS_HTTP_OUTPUT_BYTES - 1);
    CHECK(gs_http_output_has_room(output, 1, 1));
    CHECK(!gs_http_output_has_room(output, 2, 1));
}

TEST(output_of_pages_only_is_compacted)
{
    struct gs_http_log_record record = {.end = 22};
    start();
    gs_http_output_put(output, GS_HTTP_TEXT("abc"));
    gs_http_output_put_body(output, memory_page, 0, 10);
    gs_http_output_put_body(output, file_page, 1, 9);
    *output->last_log_record = &record;
    output->last_log_record = &record.next;
    CHECK(!gs_http_output_compact(output));
    gs_http_output_advance(output, 5);
    struct gs_http_output *rest = gs_http_output_compact(output);
    CHECK(rest);
    CHECK(!gs_http_output_has_room(rest, 1, 1));
    CHECK(!gs_http_output_compact(rest));
    CHECK_EQ(rest->position, 5);
    CHECK_EQ(rest->end, 22);
    CHECK_EQ(rest->count, 2);
    CHECK_EQ(*rest->segments[0].piece.bytes, '2');
    CHECK_EQ(rest->segments[0].piece.n, 8);
    CHECK_EQ(rest->segments[1].piece.offset, 1);
    CHECK(rest->log_records == &record && rest->last_log_record == &record.next);

    CHECK(!output->count && !output->log_records &&
          output->last_log_record == &output->log_records);
    CHECK(gs_http_output_has_room(output, GS_HTTP_OUTPUT_BYTES, GS_HTTP_OUTPUT_SEGMENTS));
    CHECK_EQ(memory_page->references, 2);
    gs_http_output_advance(rest, 17);
    CHECK_EQ(memory_page->references, 1);
    CHECK_EQ(rest->position, rest->end);
    gs_http_output_done(rest);
    free(rest);
    stop();
}

OUTPUT_TEST(compacted_output_takes_over_the_log)
{
    gs_http_output_put_body(output, file_page, 0, 10);
    struct gs_http_output *rest = gs_http_output_compact(output);
    CHECK(rest && !rest->log_records && rest->last_log_record == &rest->log_records);
    gs_http_output_done(rest);
    free(rest);
}
