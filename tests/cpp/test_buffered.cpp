#include "tests/cpp/fixture.hpp"

#include <cstring>
#include <string>

using namespace std::chrono_literals;
using gossamer::deadline;
using gossamer::reader;
using gossamer::thread;
using gossamer::writer;

namespace
{

/* A stream that ends after its text, or fails. */
struct text_stream {
    std::string text, sent;
    std::errc failure{};

    std::size_t recv(void *bytes, std::size_t n, deadline, std::error_code &ec) noexcept
    {
        if (failure != std::errc()) {
            ec = std::make_error_code(failure);
            return 0;
        }
        const std::size_t count = text.copy(static_cast<char *>(bytes), n);
        text.erase(0, count);
        return count;
    }

    void send_all(const void *bytes, std::size_t n, deadline, std::error_code &ec)
    {
        if (failure == std::errc())
            sent.append(static_cast<const char *>(bytes), n);
        else
            ec = std::make_error_code(failure);
    }
};

} // namespace

TEST(lines_and_parts_are_read_from_a_descriptor)
{
    run_both([] {
        ends pair = socket_pair();
        reader in(pair.near), moved(std::move(in));
        std::error_code ec;
        char bytes[4];
        pair.far.send_all("first\r\nsecond\nabcdrest", 22);
        MUST(moved.read_line(100) == "first");
        MUST(moved.read_line(100, 1h, ec) == "second" && !ec);
        MUST(moved.peek(2) == "abcdrest");
        MUST(moved.read_full(bytes, 4) && !std::memcmp(bytes, "abcd", 4));
        MUST(moved.read_some(bytes, 4) == 4 && !std::memcmp(bytes, "rest", 4));
        MUST(!moved.read_line(100, 1ms, ec) && ec == std::errc::timed_out);
        MUST(error_of([&] { moved.read_full(bytes, 4, 1ms); }) == std::errc::timed_out);
        pair.far.close();
        MUST(!moved.read_line(100) && !moved.read_full(bytes, 1) && moved.peek(1).empty());
        MUST(!moved.read_full(bytes, 1, 1h, ec) && !ec);
    });
}

TEST(a_stream_that_ends_within_a_line_is_an_error)
{
    run_both([] {
        text_stream stream{"line\npart", "", {}};
        reader in(stream, 8);
        MUST(in.read_line(8) == "line");
        MUST(error_of([&] { in.read_line(8); }) == std::errc::protocol_error);
        text_stream failing{"", "", std::errc::connection_reset};
        reader none(failing);
        MUST(error_of([&] { none.read_line(8); }) == std::errc::connection_reset);
        MUST(error_of([&] { reader(failing, 0); }) == std::errc::invalid_argument);
    });
}

TEST(pieces_are_sent_when_they_are_flushed)
{
    run_both([] {
        ends pair = socket_pair();
        writer out(pair.far);
        char bytes[8];
        std::error_code ec;
        out.write("ab");
        out.write("cd", 1h, ec);
        MUST(!ec && pair.near.recv(bytes, sizeof bytes, 0ms, ec) == 0 && ec);
        out.flush();
        MUST(pair.near.recv(bytes, sizeof bytes) == 4 && !std::memcmp(bytes, "abcd", 4));
        text_stream stream;
        writer moved(stream, 4);
        moved.write("ab");
        out = std::move(moved);
        gs_writer_printf(out.native_handle(), GS_NEVER, "%d", 1234);
        out.flush();
        MUST(stream.sent == "ab1234");
        stream.failure = std::errc::broken_pipe;
        out.write("x");
        MUST(error_of([&] { out.flush(); }) == std::errc::broken_pipe);
        out.flush(1h, ec);
        MUST(ec == std::errc::broken_pipe && stream.sent == "ab1234");
    });
}

TEST(a_reader_of_a_canceled_thread_unwinds)
{
    run_both([] {
        ends pair = socket_pair();
        thread server([&] {
            reader in(pair.near);
            MUST(is_canceled_in([&] { in.read_line(100); }));
            std::error_code ec;
            MUST(!in.read_line(100, deadline::never(), ec));
            MUST(ec == std::errc::operation_canceled);
            throw gossamer::canceled();
        });
        gossamer::this_thread::sleep(1ms);
        server.cancel();
        server.join();
    });
}
