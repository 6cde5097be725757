/* HTTP servers in C++: a function that answers requests, in blocking code.
 *
 *     void handle(gossamer::http_exchange &exchange)
 *     {
 *         if (exchange.path() != "/hello")
 *             throw gossamer::http_error(404, "no such page");
 *         exchange.respond(200, "text/plain", "hello\n");
 *     }
 *     gossamer::serve_http(gossamer::listen(":8080"), handle);       in a user thread
 *
 * Requests, limits and threads are described in http_server.h. The handler may be any function
 * object. All threads share it, so with several workers it is called by several kernel threads at a
 * time.
 *
 * Exceptions end the handler, and never the server. An http_error becomes a response with its
 * status and text. Any other exception becomes 500 and is reported (see serve_http), unless a call
 * of the exchange has failed before: then the client has gone, or gets the status that fits its
 * body. If the response has started, the connection is reset, so that the client does not mistake a
 * part for the whole.
 *
 * The functions that receive and send have a second form whose last argument is a std::error_code,
 * as in io.hpp. This header is not part of gossamer.hpp.
 */
#ifndef GOSSAMER_HTTP_SERVER_HPP
#define GOSSAMER_HTTP_SERVER_HPP

#include <cstdio>
#include <cstring>
#include <gossamer/http_server.h>
#include <gossamer/io.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gossamer
{

/* ---- Errors of a handler ---- */

/* Thrown by a handler: the response, with the text as its body. */
class http_error : public std::runtime_error
{
  public:
    http_error(unsigned status, const std::string &text) : std::runtime_error(text), status_(status)
    {
    }

    unsigned status() const noexcept
    {
        return status_;
    }

  private:
    unsigned status_;
};

/* ---- Requests and responses ---- */

/* A request and its response. Views are valid until the handler returns. */
class http_exchange
{
  public:
    explicit http_exchange(gs_http_exchange *native) noexcept : native_(native)
    {
    }
    http_exchange(const http_exchange &) = delete;
    http_exchange &operator=(const http_exchange &) = delete;

    std::string_view method() const noexcept
    {
        return native_->method;
    }

    /* As it was received, without the query. */
    std::string_view path() const noexcept
    {
        return native_->path;
    }

    /* As gs_http_decode_path. Throws http_error(400) if the path is malformed. */
    std::string decode_path() const
    {
        return decode(std::strlen(native_->path), [this](char *out, std::size_t size) {
            return gs_http_decode_path(native_->path, out, size);
        });
    }

    /* Empty if there is none. */
    std::string_view query() const noexcept
    {
        return view(native_->query);
    }

    /* The first value of this name in the query. Throws http_error(400) if it is malformed. */
    std::optional<std::string> query_value(const std::string &name) const
    {
        return form_value(native_->query, name);
    }

    /* The same in a body of the type application/x-www-form-urlencoded. */
    static std::optional<std::string> form_value(const std::string &body, const std::string &name)
    {
        return form_value(body.c_str(), name);
    }

    /* With the port, if one was sent. Empty: HTTP/1.0. */
    std::string_view host() const noexcept
    {
        return view(native_->host);
    }

    /* The value of the first field of this name, in any case. */
    std::optional<std::string_view> field(const std::string &name) const noexcept
    {
        const char *value = gs_http_field(native_, name.c_str());
        if (!value)
            return {};
        return value;
    }

    /* Read up to n bytes of the body, as soon as there are some. 0: its end. */
    std::size_t read(void *bytes, std::size_t n)
    {
        return size(checked(detail::wait(gs_http_read, native_, bytes, n)));
    }
    std::size_t read(void *bytes, std::size_t n, std::error_code &ec) noexcept
    {
        return size(noted(call(ec, gs_http_read, native_, bytes, n)));
    }

    /* Read all of the rest of the body. Throws http_error(413) if it is longer than max bytes. */
    std::string read_all(std::size_t max)
    {
        const std::size_t limit = max < SIZE_MAX ? max : SIZE_MAX - 1;
        const std::uint64_t length = native_->content_length;
        if (length != GS_HTTP_UNKNOWN && length > limit)
            throw http_error(413, "the body is too long");
        const std::size_t first =
            length == GS_HTTP_UNKNOWN ? 4096 : static_cast<std::size_t>(length);
        std::string body((first < limit ? first : limit) + 1, '\0'); // one more finds the end
        std::size_t used = 0;
        while (const std::size_t n = read(body.data() + used, body.size() - used)) {
            used += n;
            if (used > limit)
                throw http_error(413, "the body is too long");
            if (used == body.size())
                body.resize(used < limit / 2 ? 2 * used : limit + 1);
        }
        body.resize(used);
        return body;
    }

    /* Add a field to the response, before it has started. */
    void set_field(const std::string &name, const std::string &value)
    {
        check(gs_http_set_field(native_, name.c_str(), value.c_str()));
    }

    /* Send a complete response. An empty media_type: none. */
    void respond(unsigned status, const std::string &media_type, std::string_view body)
    {
        std::error_code ec;
        respond(status, media_type, body, ec);
        if (ec)
            detail::fail(ec.value());
    }
    void respond(unsigned status, const std::string &media_type, std::string_view body,
                 std::error_code &ec) noexcept
    {
        noted(call(ec, gs_http_respond, native_, status, type(media_type),
                   static_cast<const void *>(body.data()), body.size()));
    }

    /* Start a response whose body is written with write, and ends when the handler returns. */
    void start(unsigned status, const std::string &media_type,
               std::uint64_t length = GS_HTTP_UNKNOWN)
    {
        check(gs_http_start(native_, status, type(media_type), length));
    }

    /* Send the next part of the body; with an empty one, send the head. */
    void write(std::string_view part)
    {
        checked(detail::wait(gs_http_write, native_, static_cast<const void *>(part.data()),
                             part.size()));
    }
    void write(std::string_view part, std::error_code &ec) noexcept
    {
        noted(
            call(ec, gs_http_write, native_, static_cast<const void *>(part.data()), part.size()));
    }

    /* End the response here, incomplete: the connection is reset. */
    void abort() noexcept
    {
        detail::wait(gs_http_abort, native_);
    }

    /* Whether the connection, or the body of the request, has failed in a call. */
    bool has_failed() const noexcept
    {
        return has_failed_;
    }

    /* For the C interface: fields, version, length of the body, socket. */
    gs_http_exchange *native_handle() const noexcept
    {
        return native_;
    }

  private:
    static std::string_view view(const char *text) noexcept
    {
        return text ? std::string_view(text) : std::string_view();
    }

    static const char *type(const std::string &media_type) noexcept
    {
        return media_type.empty() ? nullptr : media_type.c_str();
    }

    static std::size_t size(ssize_t result) noexcept
    {
        return result > 0 ? static_cast<std::size_t>(result) : 0;
    }

    template <class F> static std::string decode(std::size_t max, F into)
    {
        std::string text(max, '\0');
        const ssize_t n = into(text.data(), max + 1);
        if (n == -EINVAL)
            throw http_error(400, "a malformed escape or path");
        text.resize(static_cast<std::size_t>(check(n)));
        return text;
    }

    static std::optional<std::string> form_value(const char *query, const std::string &name)
    {
        char none = '\0';
        if (!query || gs_http_query_value(query, name.c_str(), &none, 1) == -ENOENT)
            return {};
        return decode(std::strlen(query), [&](char *out, std::size_t size) {
            return gs_http_query_value(query, name.c_str(), out, size);
        });
    }

    /* These four are errors of the handler, or of the server. */
    template <class Result> Result noted(Result result) noexcept
    {
        has_failed_ = has_failed_ || (result < 0 && result != -EINVAL && result != -EALREADY &&
                                      result != -EMSGSIZE && result != -ENOMEM);
        return result;
    }

    template <class Result> Result checked(Result result)
    {
        return check(noted(result));
    }

    gs_http_exchange *native_;
    bool has_failed_ = false;
};

/* ---- Serving ---- */

/* Its handler and data are set by serve_http. */
using http_options = gs_http_server;

/* Reports on the standard error stream which request an exception has ended. */
struct http_exception_report {
    void operator()(const http_exchange &exchange, const std::exception_ptr &error) const noexcept
    {
        const gs_http_exchange *request = exchange.native_handle();
        try {
            std::rethrow_exception(error);
        } catch (const std::exception &known) {
            write(request, known.what());
        } catch (...) {
            write(request, "an exception of an unknown type");
        }
    }

  private:
    static void write(const gs_http_exchange *request, const char *what) noexcept
    {
        std::fprintf(stderr, "%s %s: %s\n", request->method, request->path, what);
    }
};

namespace detail
{

/* A handler and what reports its exceptions, as the C interface calls them. */
template <class Handler, class Report> class http_handler
{
  public:
    http_handler(Handler &handler, Report &report) noexcept : handler_(handler), report_(report)
    {
    }

    static void run(gs_http_exchange *native, void *data) noexcept
    {
        const auto leave = [](void *) { end_exceptions(); };
        gs_cleanup cleanup{};
        gs_cleanup_push(&cleanup, leave, nullptr);
        http_exchange exchange(native);
        const bool exits = static_cast<http_handler *>(data)->answer(exchange);
        gs_cleanup_pop(false);
        if (exits)
            gs_thread_exit(nullptr);
    }

  private:
    /* Returns whether the handler has called exit_thread. */
    bool answer(http_exchange &exchange) noexcept
    {
        try {
            std::invoke(handler_, exchange);
        } catch (const canceled &) {
            refuse(exchange, 0, nullptr);
        } catch (const thread_exit &) {
            return true;
        } catch (const http_error &error) {
            refuse(exchange, error.status(), error.what());
        } catch (...) {
            const bool is_lost = exchange.has_failed();
            refuse(exchange, 0, nullptr);
            if (!is_lost)
                report_(exchange, std::current_exception());
        }
        return false;
    }

    /* Respond with the status; 0: leave that to the server. Errors are not stored by caches, and
     * whether a field can still be added tells whether a response has started, also one of the C
     * interface. */
    static void refuse(http_exchange &exchange, unsigned status, const char *text) noexcept
    {
        gs_http_exchange *native = exchange.native_handle();
        const int err = gs_http_set_field(native, "Cache-Control", "no-store");
        if (err == -EALREADY)
            wait(gs_http_abort, native);
        else if (status && wait(gs_http_respond, native, status, "text/plain",
                                static_cast<const void *>(text), std::strlen(text)) == -EINVAL)
            std::fprintf(stderr, "%s %s: no status of a response: %u\n", native->method,
                         native->path, status);
    }

    Handler &handler_;
    Report &report_;
};

} // namespace detail

/* Accept connections and serve them until the calling thread is canceled, and then drain, as
 * gs_http_serve does. handler: called with an http_exchange &, in a user thread for each request.
 * report: called with a const http_exchange & and a std::exception_ptr for each exception that is
 * reported; it must throw none. Throws std::system_error if the server cannot start or the listener
 * fails. */
template <class Handler, class Report = http_exception_report>
void serve_http(const file_descriptor &listener, const http_options &options, Handler &&handler,
                Report &&report = Report())
{
    using calls =
        detail::http_handler<std::remove_reference_t<Handler>, std::remove_reference_t<Report>>;
    calls both{handler, report};
    http_options server = options;
    server.handler = calls::run;
    server.data = &both;
    call(gs_http_serve, listener.get(), static_cast<const http_options *>(&server));
}

template <class Handler> void serve_http(const file_descriptor &listener, Handler &&handler)
{
    serve_http(listener, http_options(), std::forward<Handler>(handler));
}

} // namespace gossamer

#endif
