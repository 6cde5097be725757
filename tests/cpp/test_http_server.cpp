#include "tests/cpp/fixture.hpp"

#include <gossamer/http_server.hpp>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using gossamer::file_descriptor;
using gossamer::http_exchange;
using gossamer::thread;

namespace
{

/* A server for the time of a test, and what its handler's exceptions say. */
class served
{
  public:
    template <class F>
    explicit served(F handler)
        : listener_(gossamer::listen("127.0.0.1:0")), address_(address_of(listener_)),
          server_([this, handler] {
              gossamer::serve_http(
                  listener_, gossamer::http_options(), handler,
                  [this](const http_exchange &, const std::exception_ptr &error) { note(error); });
          })
    {
    }

    /* Send the request, and return all that is received, or the error that ends it. */
    std::string ask(const std::string &request) const
    {
        const file_descriptor client = gossamer::dial(address_, 1h);
        std::string all;
        char bytes[1000];
        std::error_code ec;
        client.send_all(request.data(), request.size(), 1h);
        while (const std::size_t n = client.recv(bytes, sizeof bytes, 1h, ec))
            all.append(bytes, n);
        return ec ? "failed: " + ec.message() : all;
    }

    std::string get(const std::string &target) const
    {
        return ask("GET " + target + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    }

    std::vector<std::string> reported() const
    {
        const std::lock_guard lock(mutex_);
        return reported_;
    }

  private:
    void note(const std::exception_ptr &error)
    {
        const std::lock_guard lock(mutex_);
        try {
            std::rethrow_exception(error);
        } catch (const std::exception &known) {
            reported_.emplace_back(known.what());
        } catch (...) {
            reported_.emplace_back("unknown");
        }
    }

    file_descriptor listener_;
    std::string address_;
    mutable gossamer::mutex mutex_;
    std::vector<std::string> reported_;
    thread server_;
};

bool begins_with(const std::string &text, const std::string &start)
{
    return text.compare(0, start.size(), start) == 0;
}

bool ends_with(const std::string &text, const std::string &end)
{
    return text.size() >= end.size() &&
           text.compare(text.size() - end.size(), end.size(), end) == 0;
}

} // namespace

TEST(a_request_is_answered)
{
    run_both([] {
        const served server([](http_exchange &exchange) {
            MUST(exchange.method() == "GET" && exchange.path() == "/a/%62");
            MUST(exchange.decode_path() == "a/b" && exchange.host() == "a");
            MUST(exchange.query() == "name=x+y%21" && !exchange.query_value("none"));
            MUST(exchange.field("HOST") == "a" && !exchange.field("none"));
            exchange.set_field("X-Test", "1");
            exchange.respond(200, "text/plain", *exchange.query_value("name"));
        });
        const std::string answer = server.get("/a/%62?name=x+y%21");
        MUST(begins_with(answer, "HTTP/1.1 200 ") && ends_with(answer, "\r\n\r\nx y!"));
        MUST(answer.find("\r\nX-Test: 1\r\n") != std::string::npos);
        MUST(server.reported().empty());
    });
}

TEST(bodies_are_read_and_written_in_parts)
{
    run_both([] {
        const served server([](http_exchange &exchange) {
            const std::string body = exchange.read_all(10000);
            exchange.start(200, "", body.size() + 1);
            exchange.write("<");
            std::error_code ec;
            exchange.write(body, ec);
            MUST(!ec && exchange.read(nullptr, 0, ec) == 0);
        });
        const std::string close = "Host: a\r\nConnection: close\r\n", big(9999, 'x');
        MUST(ends_with(
            server.ask("POST / HTTP/1.1\r\n" + close + "Content-Length: 9999\r\n\r\n" + big),
            "\r\n\r\n<" + big));
        const std::string chunked = "POST / HTTP/1.1\r\n" + close +
                                    "Transfer-Encoding: chunked\r\n\r\n1388\r\n" +
                                    std::string(5000, 'y') + "\r\n";
        MUST(ends_with(server.ask(chunked + "0\r\n\r\n"), "<" + std::string(5000, 'y')));
        const std::string rest = "1389\r\n" + std::string(5001, 'y') + "\r\n0\r\n\r\n";
        MUST(begins_with(server.ask(chunked + rest), "HTTP/1.1 413 "));
        MUST(begins_with(server.ask("POST / HTTP/1.1\r\n" + close +
                                    "Content-Length: 10001\r\n\r\n" + big + "yy"),
                         "HTTP/1.1 413 "));
        MUST(server.reported().empty());
    });
}

TEST(exceptions_become_responses_and_are_reported)
{
    run_both([] {
        const served server([](http_exchange &exchange) {
            if (exchange.path() == "/none")
                throw gossamer::http_error(404, "no such page");
            if (exchange.path() == "/int")
                throw 7;
            if (exchange.path() == "/path") {
                exchange.query_value("a");
                MUST(false);
            }
            if (exchange.path() == "/late")
                exchange.start(200, "text/plain");
            exchange.set_field("X-Test", exchange.path() == "/field" ? "a\nb" : "a");
            throw std::runtime_error("the disk is full");
        });
        const std::string none = server.get("/none");
        MUST(begins_with(none, "HTTP/1.1 404 ") && ends_with(none, "\r\n\r\nno such page"));
        MUST(none.find("\r\nCache-Control: no-store\r\n") != std::string::npos);
        MUST(begins_with(server.get("/path?a=%zz"), "HTTP/1.1 400 "));
        MUST(server.reported().empty());
        MUST(begins_with(server.get("/disk"), "HTTP/1.1 500 "));
        MUST(begins_with(server.get("/int"), "HTTP/1.1 500 "));
        MUST(begins_with(server.get("/field"), "HTTP/1.1 500 "));
        const std::vector<std::string> reported = server.reported();
        MUST(reported.size() == 3 && reported[0] == "the disk is full");
        MUST(reported[1] == "unknown" && begins_with(reported[2], "Invalid argument"));
    });
}

TEST(an_exception_after_the_start_of_a_response_resets_the_connection)
{
    run_both([] {
        const served server([](http_exchange &exchange) {
            exchange.start(200, "text/plain");
            exchange.write("a part");
            if (exchange.path() == "/exit")
                gossamer::exit_thread();
            throw gossamer::http_error(404, "too late");
        });
        MUST(begins_with(server.get("/"), "failed: "));
        MUST(begins_with(server.get("/exit"), "failed: "));
    });
}

TEST(a_canceled_server_unwinds_its_handlers)
{
    run_both([] {
        std::atomic<int> unwound{0};
        struct count {
            std::atomic<int> *value;
            ~count()
            {
                ++*value;
            }
        };
        gossamer::semaphore is_called(0);
        const file_descriptor listener = gossamer::listen("127.0.0.1:0");
        gossamer::http_options options{};
        options.drain_timeout_ns = 1;
        thread server([&] {
            gossamer::serve_http(listener, options, [&](http_exchange &) {
                const count counted{&unwound};
                is_called.release();
                gossamer::this_thread::sleep(gossamer::deadline::never());
            });
        });
        const file_descriptor client = gossamer::dial(address_of(listener), 1h);
        client.send_all("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27);
        is_called.acquire();
        server.cancel();
        server.join();
        MUST(unwound == 1);
    });
}

TEST(a_server_that_cannot_listen_is_an_error)
{
    run_both([] {
        const auto serve = [] { gossamer::serve_http(file_descriptor(), [](http_exchange &) {}); };
        MUST(error_of(serve) == std::errc::bad_file_descriptor);
    });
}
