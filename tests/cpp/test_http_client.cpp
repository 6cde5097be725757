#include "tests/cpp/fixture.hpp"

#include <cstring>
#include <gossamer/http_client.hpp>
#include <gossamer/http_server.hpp>
#include <stdexcept>
#include <string>

using namespace std::chrono_literals;
using gossamer::file_descriptor;
using gossamer::http_client;
using gossamer::http_exchange;
using gossamer::http_request;
using gossamer::http_response;
using gossamer::thread;

namespace
{

/* A server that answers with what it was sent. */
class mirror
{
  public:
    mirror()
        : listener_(gossamer::listen("127.0.0.1:0")), url_("http://" + address_of(listener_)),
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
        if (exchange.path() == "/none")
            throw gossamer::http_error(404, "no such page");
        if (exchange.path() == "/wait")
            gossamer::this_thread::sleep(gossamer::deadline::never());
        const auto field = exchange.field("X-Test");
        exchange.set_field("X-Test", std::string(field.value_or("none")));
        exchange.respond(200, "text/plain",
                         std::string(exchange.method()) + " " + exchange.read_all(1000000));
    }

    file_descriptor listener_;
    std::string url_;
    thread server_;
};

} // namespace

TEST(pages_are_fetched)
{
    run_both([] {
        const mirror server;
        http_client client;
        http_response page = client.get(server.url() + "/a", 1h);
        MUST(page && page.status() == 200 && page.url() == server.url() + "/a");
        MUST(page.field("content-type") == "text/plain" && !page.field("none"));
        char bytes[3];
        MUST(page.read(bytes, 3, 1h) == 3 && !std::memcmp(bytes, "GET", 3));
        MUST(page.read_all(10, 1h) == " " && page.read(bytes, 1, 1h) == 0);
        page = client.get(server.url() + "/none");
        MUST(page.status() == 404);
        std::error_code ec;
        MUST(page.read_all(5, 1h, ec).empty() && ec == std::errc::message_size);
        page = http_response(); // the client outlives its responses
        http_client moved(std::move(client));
        MUST(moved.get(server.url(), 1h, ec).status() == 200 && !ec);
    });
}

TEST(requests_have_fields_and_bodies)
{
    run_both([] {
        const mirror server;
        http_client client;
        http_request request;
        request.url = server.url();
        request.fields = {{"X-Test", "one"}, {"X-Other", "two"}};
        request.body = "a body";
        http_response page = client.fetch(request, 1h);
        MUST(page.field("X-Test") == "one" && page.read_all(100, 1h) == "POST a body");
        request.method = "PUT";
        request.body = {};
        int parts = 0;
        request.read_body = [&](void *bytes, std::size_t n, gossamer::deadline) -> std::size_t {
            std::memset(bytes, 'x', n < 1000 ? n : 1000);
            return ++parts > 10 ? 0 : n < 1000 ? n : 1000;
        };
        const std::string all = client.fetch(request, 1h).read_all(100000, 1h);
        MUST(all.size() > 4 && all.compare(0, 5, "PUT x") == 0 && parts == 11);
        request.read_body = [](void *, std::size_t, gossamer::deadline) -> std::size_t {
            throw std::runtime_error("the file is gone");
        };
        std::string caught;
        try {
            client.fetch(request, 1h);
        } catch (const std::runtime_error &error) {
            caught = error.what();
        }
        MUST(caught == "the file is gone");
    });
}

TEST(a_failure_of_a_request_is_an_exception_with_a_reason)
{
    run_both([] {
        const mirror server;
        http_client client;
        std::error_code ec;
        MUST(!client.get("nonsense", 1h, ec) && ec == std::errc::invalid_argument);
        std::string caught;
        try {
            client.get("nonsense", 1h);
        } catch (const std::system_error &error) {
            caught = error.what();
        }
        MUST(caught.find("URL") != std::string::npos);
        MUST(error_of([&] { client.get(server.url() + "/wait", 1ms); }) == std::errc::timed_out);
        thread waiting([&] { client.get(server.url() + "/wait"); });
        gossamer::this_thread::sleep(1ms);
        waiting.cancel();
        waiting.join();
    });
}
