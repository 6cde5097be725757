/* HTTP client in C++, for user threads.
 *
 *     gossamer::http_client client;                            once in a program
 *     gossamer::http_response page = client.get("http://localhost:8080/", 5s);
 *     if (page.status() == 200)
 *         std::cout << page.read_all(1 << 20, 5s);
 *
 * What is sent, followed, kept and decoded is described in http_client.h. For https, a program
 * includes tls.hpp, links gossamer-tls, and gives the client a context:
 *
 *     gossamer::http_client_options options{};
 *     options.tls = context.get();
 *     gossamer::http_client client(options);
 *
 * A status such as 404 is no error. The text of an exception says what has failed, and a remedy
 * where there is one. Functions that wait have a second form whose last argument is a
 * std::error_code, as in io.hpp. This header is not part of gossamer.hpp.
 */
#ifndef GOSSAMER_HTTP_CLIENT_HPP
#define GOSSAMER_HTTP_CLIENT_HPP

#include <cstdlib>
#include <exception>
#include <functional>
#include <gossamer/http_client.h>
#include <gossamer/thread.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gossamer
{

namespace detail
{

[[noreturn]] inline void fail_http(int error)
{
    if (error == ECANCELED)
        throw canceled();
    throw std::system_error(code_of(-error), gs_http_client_error());
}

} // namespace detail

/* ---- Responses ---- */

/* Owns a response. Move only. Its connection is kept when the body has been read. Views are valid
 * as long as it is. */
class http_response
{
  public:
    http_response() noexcept = default;
    explicit http_response(gs_http_response *native) noexcept : native_(native)
    {
    }
    http_response(http_response &&other) noexcept : native_(std::exchange(other.native_, nullptr))
    {
    }
    http_response &operator=(http_response &&other) noexcept
    {
        http_response before(std::move(*this));
        native_ = std::exchange(other.native_, nullptr);
        return *this;
    }
    ~http_response()
    {
        gs_http_response_free(native_);
    }

    explicit operator bool() const noexcept
    {
        return native_;
    }

    unsigned status() const noexcept
    {
        return native_->status;
    }

    /* That has answered, after redirects. */
    std::string_view url() const noexcept
    {
        return native_->url;
    }

    /* The value of the first field of this name, in any case. */
    std::optional<std::string_view> field(const std::string &name) const noexcept
    {
        const char *value = gs_http_response_field(native_, name.c_str());
        if (!value)
            return {};
        return value;
    }

    /* Read up to n bytes of the body, as soon as there are some. 0: its end. */
    std::size_t read(void *bytes, std::size_t n, deadline limit = deadline::never())
    {
        std::error_code ec;
        return or_throw(read(bytes, n, limit, ec), ec);
    }
    std::size_t read(void *bytes, std::size_t n, deadline limit, std::error_code &ec) noexcept
    {
        const ssize_t result = call(ec, gs_http_response_read, native_, bytes, n, limit.ns());
        return result > 0 ? static_cast<std::size_t>(result) : 0;
    }

    /* Read all of the rest of the body, which is std::errc::message_size if it is longer than max
     * bytes. */
    std::string read_all(std::size_t max, deadline limit = deadline::never())
    {
        std::error_code ec;
        return or_throw(read_all(max, limit, ec), ec);
    }
    std::string read_all(std::size_t max, deadline limit, std::error_code &ec)
    {
        char *body = nullptr;
        const ssize_t n = call(ec, gs_http_response_read_all, native_, max, limit.ns(), &body);
        if (n < 0)
            return {};
        const std::unique_ptr<char, decltype(&std::free)> owner(body, std::free);
        return {body, static_cast<std::size_t>(n)};
    }

    /* For the C interface: fields, length of the body. */
    gs_http_response *native_handle() const noexcept
    {
        return native_;
    }

  private:
    template <class T> static T or_throw(T result, const std::error_code &ec)
    {
        if (ec)
            detail::fail_http(ec.value());
        return result;
    }

    gs_http_response *native_ = nullptr;
};

/* ---- Requests ---- */

struct http_request {
    std::string url;
    std::string method; /* empty: GET; or POST, if there is a body */
    std::vector<std::pair<std::string, std::string>> fields;
    std::string_view body;
    /* Returns how many bytes of the body it has written to the memory, at most n; 0: the end. What
     * it throws is thrown by fetch. Empty: the body is in memory. */
    std::function<std::size_t(void *bytes, std::size_t n, deadline limit)> read_body;
    std::uint64_t body_length = 0; /* with read_body: 0: unknown, it is sent in chunks */
};

using http_client_options = gs_http_client_options;

/* Owns a client, which threads of any workers may use at the same time. Move only. It outlives its
 * responses. It may be created and destroyed while no user threads run. */
class http_client
{
  public:
    explicit http_client(const http_client_options &options = http_client_options())
    {
        check(gs_http_client_new(&options, &native_));
    }
    http_client(http_client &&other) noexcept : native_(std::exchange(other.native_, nullptr))
    {
    }
    http_client &operator=(http_client &&other) noexcept
    {
        std::swap(native_, other.native_);
        return *this;
    }
    ~http_client()
    {
        gs_http_client_free(native_);
    }

    /* Get a page: wait for the head of the response, after redirects. */
    http_response get(const std::string &url, deadline limit = deadline::never())
    {
        std::error_code ec;
        return or_throw(get(url, limit, ec), ec);
    }
    http_response get(const std::string &url, deadline limit, std::error_code &ec) noexcept
    {
        gs_http_response *response = nullptr;
        call(ec, gs_http_get, native_, url.c_str(), limit.ns(), &response);
        return http_response(response);
    }

    /* The same with any request. */
    http_response fetch(const http_request &request, deadline limit = deadline::never())
    {
        std::error_code ec;
        return or_throw(fetch(request, limit, ec), ec);
    }
    http_response fetch(const http_request &request, deadline limit, std::error_code &ec)
    {
        body_reader reader{request, nullptr};
        std::vector<struct gs_http_field> fields;
        fields.reserve(request.fields.size());
        for (const auto &[name, value] : request.fields)
            fields.push_back({name.c_str(), value.c_str()});
        gs_http_client_request native{};
        native.method = request.method.empty() ? nullptr : request.method.c_str();
        native.url = request.url.c_str();
        native.fields = fields.data();
        native.field_count = static_cast<unsigned>(fields.size());
        native.body = request.body.empty() ? nullptr : request.body.data();
        native.body_n = request.body.size();
        native.read_body = request.read_body ? body_reader::read : nullptr;
        native.data = &reader;
        native.body_length = request.body_length;
        gs_http_response *response = nullptr;
        call(ec, gs_http_fetch, native_, static_cast<const gs_http_client_request *>(&native),
             limit.ns(), &response);
        http_response result(response);
        if (reader.error)
            std::rethrow_exception(reader.error);
        return result;
    }

    /* For the C interface. */
    gs_http_client *native_handle() const noexcept
    {
        return native_;
    }

  private:
    /* Calls the function of a request, whose exceptions must not pass the C interface. */
    struct body_reader {
        const http_request &request;
        std::exception_ptr error;

        static ssize_t read(void *data, void *bytes, std::size_t n, std::uint64_t limit_ns) noexcept
        {
            auto *self = static_cast<body_reader *>(data);
            try {
                return static_cast<ssize_t>(
                    self->request.read_body(bytes, n, deadline::at_ns(limit_ns)));
            } catch (...) {
                self->error = std::current_exception();
            }
            return -EIO;
        }
    };

    static http_response or_throw(http_response response, const std::error_code &ec)
    {
        if (ec)
            detail::fail_http(ec.value());
        return response;
    }

    gs_http_client *native_ = nullptr;
};

} // namespace gossamer

#endif
