#include "tests/cpp/fixture.hpp"

#include <gossamer/http_server.hpp>
#include <gossamer/websocket.hpp>
#include <string>

using namespace std::chrono_literals;
using gossamer::file_descriptor;
using gossamer::http_exchange;
using gossamer::thread;
using gossamer::websocket;
using gossamer::websocket_message;

namespace
{

/* A server that sends back each message, and closes after "close". */
class echo
{
  public:
    echo()
        : listener_(gossamer::listen("127.0.0.1:0")), url_("ws://" + address_of(listener_)),
          server_([this] { gossamer::serve_http(listener_, answer); })
    {
    }

    const std::string &url() const
    {
        return url_;
    }

  private:
    static void answer(http_exchange &exchange)
    {
        std::optional<websocket> socket = websocket::accept(exchange);
        if (!socket)
            return;
        if (exchange.path() == "/lost")
            throw gossamer::canceled();
        while (const std::optional<websocket_message> message = socket->receive(1h)) {
            if (message->bytes == "close")
                return socket->close(4000, "as wanted", 1h);
            if (message->is_text())
                socket->send(message->bytes, 1h);
            else
                socket->send_binary(message->bytes, 1h);
        }
        socket->close(GS_WEBSOCKET_NORMAL, "", 1h);
    }

    file_descriptor listener_;
    std::string url_;
    thread server_;
};

} // namespace

TEST(messages_are_sent_and_received)
{
    run_both([] {
        const echo server;
        websocket first = websocket::connect(server.url(), 1h), socket(std::move(first));
        MUST(!first && socket && socket.protocol().empty());
        std::error_code ec;
        socket.send("a text", 1h);
        std::optional<websocket_message> message = socket.receive(1h);
        MUST(message && message->is_text() && message->bytes == "a text");
        socket.send_binary(std::string_view("\0x", 2), 1h, ec);
        message = socket.receive(1h, ec);
        MUST(message && !ec && !message->is_text() && message->bytes.size() == 2);
        MUST(!socket.receive(1ms, ec) && ec == std::errc::timed_out);
        MUST(socket.end().code == 0);
        socket.send("close", 1h);
        MUST(!socket.receive(1h, ec) && !ec);
        MUST(socket.end().code == 4000 && socket.end().reason == "as wanted");
        MUST(error_of([&] { socket.send("late", 1h); }) == std::errc::broken_pipe);
        socket.close(GS_WEBSOCKET_NORMAL, "", 1h, ec);
        MUST(!socket);
    });
}

TEST(a_connection_that_is_not_closed_is_lost)
{
    run_both([] {
        const echo server;
        websocket socket = websocket::connect(server.url() + "/lost", 1h);
        MUST(error_of([&] { socket.receive(1h); }) == std::errc::connection_reset);
        MUST(socket.end().code == GS_WEBSOCKET_LOST);
    });
}

TEST(a_failure_of_a_websocket_is_an_exception_with_a_reason)
{
    run_both([] {
        const echo server;
        std::string caught;
        try {
            websocket::connect("nonsense", 1h);
        } catch (const std::system_error &error) {
            MUST(error.code() == std::errc::invalid_argument);
            caught = error.what();
        }
        MUST(caught.size() > 20);
        const file_descriptor client = gossamer::dial(server.url().substr(5), 1h);
        const std::string request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        client.send_all(request.data(), request.size(), 1h);
        char bytes[12];
        MUST(client.recv(bytes, sizeof bytes, 1h) == 12);
        MUST(std::string(bytes, 12) == "HTTP/1.1 426");
        websocket waits = websocket::connect(server.url(), 1h);
        thread waiting([&] { waits.receive(); });
        gossamer::this_thread::sleep(1ms);
        waiting.cancel();
        waiting.join();
    });
}
