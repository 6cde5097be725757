#include "tests/cpp/fixture.hpp"

#include <string>

using namespace std::chrono_literals;
using gossamer::file_descriptor;

TEST(addresses_are_listened_at_and_dialed)
{
    const file_descriptor outside = gossamer::listen("127.0.0.1:0");
    CHECK(outside);
    run_both([] {
        const file_descriptor listener = gossamer::listen("127.0.0.1:0");
        const file_descriptor client = gossamer::dial(address_of(listener), 1h);
        const file_descriptor accepted = listener.accept(1h);
        char byte = 0;
        client.send_all("x", 1, 1h);
        MUST(accepted.recv(&byte, 1, 1h) == 1 && byte == 'x');
    });
}

TEST(addresses_that_are_none_are_errors)
{
    run_both([] {
        std::error_code ec;
        MUST(error_of([] { gossamer::dial("nonsense"); }) == std::errc::invalid_argument);
        MUST(!gossamer::dial("nonsense", 1h, ec) && ec == std::errc::invalid_argument);
        MUST(error_of([] { gossamer::listen("nonsense"); }) == std::errc::invalid_argument);
        const file_descriptor listener = gossamer::listen("127.0.0.1:0");
        const std::string taken = address_of(listener);
        MUST(!gossamer::listen(taken, gossamer::listen_options(), ec));
        MUST(ec == std::errc::address_in_use);
        MUST(gossamer::dial(taken, 1h, ec) && !ec);
    });
}
