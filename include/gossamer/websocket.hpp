/* WebSocket connections in C++, for user threads: servers and clients.
 *
 *     void handle(gossamer::http_exchange &exchange)
 *     {
 *         std::optional<gossamer::websocket> socket = gossamer::websocket::accept(exchange);
 *         while (auto message = socket ? socket->receive(1h) : std::nullopt)
 *             socket->send(message->bytes, 10s);
 *     }
 *
 * What the protocol demands, and which threads may do what, is described in websocket.h. The
 * functions that receive and send have a second form whose last argument is a std::error_code, as
 * in io.hpp; in exceptions, a text says what has failed. serve_http reports an exception that
 * leaves the handler, also if the client has just gone. This header is not part of gossamer.hpp.
 */
#ifndef GOSSAMER_WEBSOCKET_HPP
#define GOSSAMER_WEBSOCKET_HPP

#include <array>
#include <gossamer/http_server.hpp>
#include <gossamer/websocket.h>
#include <optional>
#include <string>
#include <string_view>

namespace gossamer
{

using websocket_options = gs_websocket_options;

/* A message, which is valid until the next call that receives. */
struct websocket_message {
    gs_websocket_type type;
    std::string_view bytes;

    bool is_text() const noexcept
    {
        return type == GS_WEBSOCKET_TEXT;
    }
};

/* How the peer has ended the connection; code: one of enum gs_websocket_code, 0: it is open. */
struct websocket_end {
    unsigned code;
    std::string reason;
};

/* Owns a connection. Move only. The destructor aborts it unless it was closed, so a peer notices
 * that an exception has ended it early. */
class websocket
{
  public:
    websocket() noexcept = default;

    /* The handshake of a server, in the handler of a request. Without a value if the request is at
     * fault: then it has been answered. */
    static std::optional<websocket> accept(http_exchange &exchange,
                                           const websocket_options &options = websocket_options())
    {
        gs_websocket *socket = nullptr;
        const int err =
            detail::wait(gs_websocket_accept, exchange.native_handle(), &options, &socket);
        if (err == -EINVAL || err == -EPERM)
            return {};
        check(err);
        return websocket(socket);
    }

    /* Connect to "ws://HOST[:PORT][/PATH]", or wss, which needs a context in the options. */
    static websocket connect(const std::string &url, deadline limit = deadline::never())
    {
        return connect(url, websocket_options(), limit);
    }
    static websocket connect(const std::string &url, const websocket_options &options,
                             deadline limit = deadline::never())
    {
        gs_websocket *socket = nullptr;
        std::array<char, GS_WEBSOCKET_TEXT_SIZE> text{};
        const int err = detail::wait(gs_websocket_connect, url.c_str(), &options, limit.ns(),
                                     &socket, text.data());
        if (err == -ECANCELED)
            throw canceled();
        if (err)
            throw std::system_error(code_of(err), text.data());
        return websocket(socket);
    }

    websocket(websocket &&other) noexcept : native_(std::exchange(other.native_, nullptr))
    {
    }
    websocket &operator=(websocket &&other) noexcept
    {
        websocket before(std::move(*this));
        native_ = std::exchange(other.native_, nullptr);
        return *this;
    }
    ~websocket()
    {
        if (native_)
            detail::wait(gs_websocket_abort, native_);
    }

    explicit operator bool() const noexcept
    {
        return native_;
    }

    /* The subprotocol that was agreed upon; empty: none. */
    std::string_view protocol() const noexcept
    {
        const char *protocol = gs_websocket_protocol(native_);
        return protocol ? std::string_view(protocol) : std::string_view();
    }

    /* Without a value if the peer has closed the connection: end() says why. */
    std::optional<websocket_message> receive(deadline limit = deadline::never())
    {
        std::error_code ec;
        std::optional<websocket_message> message = receive(limit, ec);
        raise(ec);
        return message;
    }
    std::optional<websocket_message> receive(deadline limit, std::error_code &ec) noexcept
    {
        struct gs_websocket_message message{};
        const int err = call(ec, gs_websocket_receive, native_, &message, limit.ns());
        if (err == -ENODATA)
            ec.clear();
        if (err)
            return {};
        return websocket_message{message.type, {message.bytes, message.n}};
    }

    /* Send a text, which is not checked to be UTF-8. */
    void send(std::string_view text, deadline limit = deadline::never())
    {
        std::error_code ec;
        send(GS_WEBSOCKET_TEXT, text, limit, ec);
        raise(ec);
    }
    void send(std::string_view text, deadline limit, std::error_code &ec) noexcept
    {
        send(GS_WEBSOCKET_TEXT, text, limit, ec);
    }

    void send_binary(std::string_view bytes, deadline limit = deadline::never())
    {
        std::error_code ec;
        send(GS_WEBSOCKET_BINARY, bytes, limit, ec);
        raise(ec);
    }
    void send_binary(std::string_view bytes, deadline limit, std::error_code &ec) noexcept
    {
        send(GS_WEBSOCKET_BINARY, bytes, limit, ec);
    }

    /* Send a close. The one that receives gets no more messages, and returns when the peer has
     * answered. */
    void shutdown(unsigned code, const std::string &reason, deadline limit = deadline::never())
    {
        std::error_code ec;
        shutdown(code, reason, limit, ec);
        raise(ec);
    }
    void shutdown(unsigned code, const std::string &reason, deadline limit,
                  std::error_code &ec) noexcept
    {
        call(ec, gs_websocket_shutdown, native_, code, reason.c_str(), limit.ns());
    }

    /* The same, and wait for the peer's close. The connection is gone in any case. */
    void close(unsigned code, const std::string &reason, deadline limit = deadline::never())
    {
        call(gs_websocket_close, std::exchange(native_, nullptr), code, reason.c_str(), limit.ns());
    }
    void close(unsigned code, const std::string &reason, deadline limit,
               std::error_code &ec) noexcept
    {
        call(ec, gs_websocket_close, std::exchange(native_, nullptr), code, reason.c_str(),
             limit.ns());
    }

    /* How the peer has ended the connection. */
    websocket_end end() const
    {
        struct gs_websocket_end native{};
        gs_websocket_end(native_, &native);
        return {native.code, native.reason};
    }

    /* For the C interface: messages in parts, pings, the socket. */
    gs_websocket *native_handle() const noexcept
    {
        return native_;
    }

  private:
    explicit websocket(gs_websocket *native) noexcept : native_(native)
    {
    }

    void send(gs_websocket_type type, std::string_view bytes, deadline limit,
              std::error_code &ec) noexcept
    {
        call(ec, gs_websocket_send, native_, type, static_cast<const void *>(bytes.data()),
             bytes.size(), limit.ns());
    }

    void raise(const std::error_code &ec) const
    {
        if (ec == std::errc::operation_canceled)
            throw canceled();
        if (ec)
            throw std::system_error(ec, gs_websocket_error(native_));
    }

    gs_websocket *native_ = nullptr;
};

} // namespace gossamer

#endif
