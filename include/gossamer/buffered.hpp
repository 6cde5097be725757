/* Buffered reading and writing of streams in C++: lines, parts of a known size, small pieces.
 *
 *     gossamer::reader reader(client);
 *     gossamer::writer writer(client);
 *     while (std::optional<std::string_view> line = reader.read_line(1000, 60s)) {
 *         writer.write(*line, 60s);
 *         writer.write("\n", 60s);
 *         writer.flush(60s);
 *     }
 *
 * A stream is a file_descriptor, or another object with its functions recv and send, or recv and
 * send_all, in their forms with a std::error_code: gossamer::tls is one. It must outlive the reader
 * or writer, and must not be moved meanwhile.
 *
 * Errors are sticky, as described in buffered.h. Each function has a second form whose last
 * argument is a std::error_code, as in io.hpp. The destructor of a writer does not flush it.
 */
#ifndef GOSSAMER_BUFFERED_HPP
#define GOSSAMER_BUFFERED_HPP

#include <gossamer/buffered.h>
#include <gossamer/io.hpp>
#include <optional>
#include <string_view>

namespace gossamer
{

namespace detail
{

template <class S, class = void> struct has_send : std::false_type {
};
template <class S>
struct has_send<S, std::void_t<decltype(std::declval<S &>().send(
                       std::declval<const void *>(), std::size_t(), std::declval<deadline>(),
                       std::declval<std::error_code &>()))>> : std::true_type {
};

/* Not for file_descriptor, which the C interface knows. */
template <class S>
using if_stream = std::enable_if_t<
    !std::is_same_v<S, file_descriptor> &&
        std::is_same_v<decltype(std::declval<S &>().recv(std::declval<void *>(), std::size_t(),
                                                         std::declval<deadline>(),
                                                         std::declval<std::error_code &>())),
                       std::size_t>,
    int>;

/* The functions of a stream, for the C interface. */
template <class S> struct stream_calls {
    static ssize_t read(void *stream, void *bytes, std::size_t n, std::uint64_t limit_ns) noexcept
    {
        std::error_code ec;
        const std::size_t count =
            static_cast<S *>(stream)->recv(bytes, n, deadline::at_ns(limit_ns), ec);
        return ec ? -ec.value() : static_cast<ssize_t>(count);
    }

    static ssize_t write(void *stream, const void *bytes, std::size_t n,
                         std::uint64_t limit_ns) noexcept
    {
        std::error_code ec;
        std::size_t count = n;
        if constexpr (has_send<S>::value)
            count = static_cast<S *>(stream)->send(bytes, n, deadline::at_ns(limit_ns), ec);
        else
            static_cast<S *>(stream)->send_all(bytes, n, deadline::at_ns(limit_ns), ec);
        return ec ? -ec.value() : static_cast<ssize_t>(count);
    }
};

/* A reader or writer of the C interface, which holds no pointer to itself and so can be moved. One
 * that was moved from can only be destroyed, or assigned to. */
template <class Native, void (*done)(Native *)> class buffered
{
  public:
    buffered() noexcept = default;
    buffered(buffered &&other) noexcept : native_(std::exchange(other.native_, {}))
    {
    }
    buffered &operator=(buffered &&other) noexcept
    {
        std::swap(native_, other.native_);
        return *this;
    }
    ~buffered()
    {
        done(&native_);
    }

    /* For the C interface. */
    Native *native_handle() noexcept
    {
        return &native_;
    }

  private:
    Native native_{};
};

} // namespace detail

/* ---- Reading ---- */

/* Move only. */
class reader
{
  public:
    static constexpr std::size_t default_size = 4096;

    /* size: of the buffer in bytes, which limits the length of a line. */
    explicit reader(const file_descriptor &stream, std::size_t size = default_size)
    {
        check(gs_reader_init(native_handle(), stream.get(), nullptr, size));
    }

    template <class S, detail::if_stream<S> = 0>
    explicit reader(S &stream, std::size_t size = default_size)
    {
        using calls = detail::stream_calls<S>;
        check(gs_reader_init_with(native_handle(), calls::read, &stream, nullptr, size));
    }

    /* Read a line of at most max bytes, and get it without its end; it is valid until the next
     * call. Empty at the end of the stream. */
    std::optional<std::string_view> read_line(std::size_t max, deadline limit = deadline::never())
    {
        std::error_code ec;
        return or_throw(read_line(max, limit, ec), ec);
    }
    std::optional<std::string_view> read_line(std::size_t max, deadline limit,
                                              std::error_code &ec) noexcept
    {
        char *line = nullptr;
        const ssize_t n = call(ec, gs_reader_read_line, native_handle(), max, limit.ns(), &line);
        if (is_at_end(n, ec) || ec)
            return {};
        return std::string_view(line, static_cast<std::size_t>(n));
    }

    /* Read n bytes. Returns false at the end of the stream, without having read any. */
    bool read_full(void *bytes, std::size_t n, deadline limit = deadline::never())
    {
        std::error_code ec;
        return or_throw(read_full(bytes, n, limit, ec), ec);
    }
    bool read_full(void *bytes, std::size_t n, deadline limit, std::error_code &ec) noexcept
    {
        const ssize_t count = call(ec, gs_reader_read_full, native_handle(), bytes, n, limit.ns());
        return !is_at_end(count, ec) && !ec;
    }

    /* Read up to n bytes, as soon as there are some. Returns their number; 0: the end. */
    std::size_t read_some(void *bytes, std::size_t n, deadline limit = deadline::never())
    {
        std::error_code ec;
        return or_throw(read_some(bytes, n, limit, ec), ec);
    }
    std::size_t read_some(void *bytes, std::size_t n, deadline limit, std::error_code &ec) noexcept
    {
        const ssize_t count = call(ec, gs_reader_read_some, native_handle(), bytes, n, limit.ns());
        return count > 0 ? static_cast<std::size_t>(count) : 0;
    }

    /* Wait until the buffer has n bytes, and get them without consuming them. They are valid until
     * the next call. Fewer than n: the stream has ended. */
    std::string_view peek(std::size_t n, deadline limit = deadline::never())
    {
        std::error_code ec;
        return or_throw(peek(n, limit, ec), ec);
    }
    std::string_view peek(std::size_t n, deadline limit, std::error_code &ec) noexcept
    {
        const void *bytes = nullptr;
        const ssize_t count = call(ec, gs_reader_peek, native_handle(), n, limit.ns(), &bytes);
        if (count <= 0)
            return {};
        return {static_cast<const char *>(bytes), static_cast<std::size_t>(count)};
    }

    /* For the C interface. */
    gs_reader *native_handle() noexcept
    {
        return native_.native_handle();
    }

  private:
    static bool is_at_end(ssize_t result, std::error_code &ec) noexcept
    {
        if (result == -ENODATA)
            ec.clear();
        return result == -ENODATA;
    }

    template <class T> static T or_throw(T result, const std::error_code &ec)
    {
        if (ec)
            detail::fail(ec.value());
        return result;
    }

    detail::buffered<gs_reader, gs_reader_done> native_;
};

/* ---- Writing ---- */

/* Move only. What was not flushed is lost with it. */
class writer
{
  public:
    static constexpr std::size_t default_size = 4096;

    explicit writer(const file_descriptor &stream, std::size_t size = default_size)
    {
        check(gs_writer_init(native_handle(), stream.get(), nullptr, size));
    }

    template <class S, detail::if_stream<S> = 0>
    explicit writer(S &stream, std::size_t size = default_size)
    {
        using calls = detail::stream_calls<S>;
        check(gs_writer_init_with(native_handle(), calls::write, &stream, nullptr, size));
    }

    void write(std::string_view text, deadline limit = deadline::never())
    {
        call(gs_writer_write, native_handle(), static_cast<const void *>(text.data()), text.size(),
             limit.ns());
    }
    void write(std::string_view text, deadline limit, std::error_code &ec) noexcept
    {
        call(ec, gs_writer_write, native_handle(), static_cast<const void *>(text.data()),
             text.size(), limit.ns());
    }

    /* After std::errc::timed_out and a cancellation the call can be repeated. */
    void flush(deadline limit = deadline::never())
    {
        call(gs_writer_flush, native_handle(), limit.ns());
    }
    void flush(deadline limit, std::error_code &ec) noexcept
    {
        call(ec, gs_writer_flush, native_handle(), limit.ns());
    }

    /* For the C interface, such as gs_writer_printf. */
    gs_writer *native_handle() noexcept
    {
        return native_.native_handle();
    }

  private:
    detail::buffered<gs_writer, gs_writer_done> native_;
};

} // namespace gossamer

#endif
