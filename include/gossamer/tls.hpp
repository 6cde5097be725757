/* TLS in C++: contexts and connections that are released by their owners.
 *
 *     void serve(gossamer::file_descriptor client, const gossamer::tls_context &context)
 *     {
 *         gossamer::tls tls = gossamer::tls::accept(context, std::move(client), 10s);
 *         char bytes[1024];
 *         while (std::size_t n = tls.recv(bytes, sizeof bytes, 60s))
 *             tls.send_all(bytes, n, 60s);
 *         tls.close(1s);
 *     }
 *
 * The functions that receive and send have a second form whose last argument is a std::error_code,
 * as in io.hpp. If TLS fails, the error is std::errc::protocol_error, and the exception's text says
 * why. This header is not part of gossamer.hpp, because it needs the library gossamer-tls.
 */
#ifndef GOSSAMER_TLS_HPP
#define GOSSAMER_TLS_HPP

#include <array>
#include <cstddef>
#include <gossamer/io.hpp>
#include <gossamer/tls.h>
#include <string>

namespace gossamer
{

namespace detail
{

using tls_text = std::array<char, GS_TLS_TEXT>;

[[noreturn]] inline void fail_tls(int error, const char *text)
{
    if (error == ECANCELED)
        throw canceled();
    throw std::system_error(error, std::system_category(), text);
}

} // namespace detail

/* A reference to a context. Copies refer to the same one. */
class tls_context
{
  public:
    explicit tls_context(const gs_tls_options &options)
    {
        detail::tls_text text{};
        if (const int err = gs_tls_context_new(&options, &context_, text.data()))
            detail::fail_tls(-err, text.data());
    }

    tls_context(const tls_context &other) noexcept : context_(other.context_)
    {
        gs_tls_context_hold(context_);
    }

    tls_context &operator=(const tls_context &other) noexcept
    {
        tls_context copy(other);
        std::swap(context_, copy.context_);
        return *this;
    }

    ~tls_context()
    {
        gs_tls_context_release(context_);
    }

    gs_tls_context *get() const noexcept
    {
        return context_;
    }

  private:
    gs_tls_context *context_ = nullptr;
};

/* Owns a connection. Move only. The destructor aborts it (gs_tls_abort) unless it was closed, so a
 * peer notices that an exception has ended the stream early. Both are called by user threads. */
class tls
{
  public:
    tls() noexcept = default;

    /* The handshake of a server. */
    static tls accept(const tls_context &context, file_descriptor socket,
                      deadline limit = deadline::never())
    {
        return start(std::move(socket), [&](int fd, gs_tls **ret_tls, char *ret_text) {
            return detail::wait(gs_tls_accept, context.get(), fd, limit.ns(), ret_tls, ret_text);
        });
    }

    /* The handshake of a client with the server of this name. */
    static tls connect(const tls_context &context, file_descriptor socket,
                       const std::string &server_name, deadline limit = deadline::never())
    {
        return start(std::move(socket), [&](int fd, gs_tls **ret_tls, char *ret_text) {
            return detail::wait(gs_tls_connect, context.get(), fd, server_name.c_str(), limit.ns(),
                                ret_tls, ret_text);
        });
    }

    /* Connect to "HOST:PORT", and make the handshake. */
    static tls dial(const tls_context &context, const std::string &address,
                    deadline limit = deadline::never())
    {
        return start(file_descriptor(), [&](int, gs_tls **ret_tls, char *ret_text) {
            return detail::wait(gs_dial_tls, context.get(), address.c_str(), limit.ns(), ret_tls,
                                ret_text);
        });
    }

    tls(tls &&other) noexcept : tls_(std::exchange(other.tls_, nullptr))
    {
    }

    tls &operator=(tls &&other) noexcept
    {
        tls before(std::move(*this));
        tls_ = std::exchange(other.tls_, nullptr);
        return *this;
    }

    ~tls()
    {
        if (tls_)
            gs_tls_abort(tls_);
    }

    /* nullptr: there is none. */
    gs_tls *get() const noexcept
    {
        return tls_;
    }

    explicit operator bool() const noexcept
    {
        return tls_;
    }

    /* Returns how many bytes were received; 0: the end of the stream. A connection that ends
     * without that is the error std::errc::connection_reset. */
    std::size_t recv(void *bytes, std::size_t n, deadline limit = deadline::never()) const
    {
        return static_cast<std::size_t>(
            check(detail::wait(gs_tls_recv, tls_, bytes, n, limit.ns())));
    }
    std::size_t recv(void *bytes, std::size_t n, deadline limit, std::error_code &ec) const noexcept
    {
        const ssize_t result = call(ec, gs_tls_recv, tls_, bytes, n, limit.ns());
        return result > 0 ? static_cast<std::size_t>(result) : 0;
    }

    /* Send all n bytes. After an error nothing more can be sent. */
    void send_all(const void *bytes, std::size_t n, deadline limit = deadline::never()) const
    {
        check(detail::wait(gs_tls_send_all, tls_, bytes, n, limit.ns()));
    }
    void send_all(const void *bytes, std::size_t n, deadline limit,
                  std::error_code &ec) const noexcept
    {
        call(ec, gs_tls_send_all, tls_, bytes, n, limit.ns());
    }

    /* End the stream to the peer; receiving goes on. */
    void shutdown(deadline limit = deadline::never()) const
    {
        call(gs_tls_shutdown, tls_, limit.ns());
    }
    void shutdown(deadline limit, std::error_code &ec) const noexcept
    {
        call(ec, gs_tls_shutdown, tls_, limit.ns());
    }

    /* End the stream, and close the connection, also if that fails. */
    void close(deadline limit = deadline::never())
    {
        call(gs_tls_close, std::exchange(tls_, nullptr), limit.ns());
    }
    void close(deadline limit, std::error_code &ec) noexcept
    {
        call(ec, gs_tls_close, std::exchange(tls_, nullptr), limit.ns());
    }

  private:
    explicit tls(gs_tls *connection) noexcept : tls_(connection)
    {
    }

    template <class F> static tls start(file_descriptor socket, F handshake)
    {
        detail::tls_text text{};
        gs_tls *connection = nullptr;
        if (const int err = handshake(socket.get(), &connection, text.data()))
            detail::fail_tls(-err, text.data());
        socket.release();
        return tls(connection);
    }

    /* As gossamer::check, with the reason if TLS has failed. */
    ssize_t check(ssize_t result) const
    {
        detail::tls_text text{};
        if (result != -EPROTO)
            return gossamer::check(result);
        gs_tls_error(tls_, text.data());
        detail::fail_tls(EPROTO, text.data());
    }

    gs_tls *tls_ = nullptr;
};

} // namespace gossamer

#endif
