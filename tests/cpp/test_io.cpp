#include "tests/cpp/fixture.hpp"

#include <array>
#include <cstring>
#include <gossamer/sys.h>

using namespace std::chrono_literals;
using gossamer::file_descriptor;
using gossamer::thread;

namespace
{

bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

file_descriptor tcp_socket()
{
    return file_descriptor(
        gossamer::check(gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
}

file_descriptor listen_at(sockaddr_in &ret_address)
{
    file_descriptor listener = tcp_socket();
    auto *address = reinterpret_cast<sockaddr *>(&ret_address);
    socklen_t length = sizeof ret_address;
    ret_address = {};
    ret_address.sin_family = AF_INET;
    ret_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    gossamer::check(gs_sys_bind(listener.get(), address, length));
    gossamer::check(gs_sys_listen(listener.get(), 10));
    gossamer::check(gs_sys_getsockname(listener.get(), address, &length));
    return listener;
}

} // namespace

TEST(a_descriptor_is_closed_by_its_owner)
{
    run_both([] {
        auto [near, far] = socket_pair();
        const int first = near.get(), second = far.get();
        {
            const file_descriptor owner(std::move(near));
            MUST(!near && near.get() == -1 && owner && owner.get() == first);
        }
        MUST(!is_open(first) && is_open(second));
        far = file_descriptor();
        MUST(!is_open(second) && !far);

        ends others = socket_pair();
        const int released = others.near.release();
        others.near.close();
        MUST(is_open(released));
        others.far = file_descriptor(released);
        auto &same = others.far;
        others.far = std::move(same);
        MUST(is_open(released) && others.far.get() == released);
    });
    ends outside = socket_pair();
    const int fd = outside.near.get();
    outside.near.close();
    CHECK(!is_open(fd));
}

TEST(bytes_are_sent_and_received)
{
    run_both([] {
        ends pair = socket_pair();
        std::array<char, 16> bytes{};
        thread sender([&far = pair.far] {
            far.send_all("abc", 3);
            MUST(far.send("de", 2, 1h) == 2);
            far.close();
        });
        std::string all;
        while (const std::size_t n = pair.near.recv(bytes.data(), bytes.size(), 1h))
            all.append(bytes.data(), n);
        MUST(all == "abcde");
        sender.join();
    });
}

TEST(errors_are_thrown_or_stored)
{
    run_both([] {
        ends pair = socket_pair();
        char byte = 0;
        std::error_code ec;
        MUST(error_of([&] { pair.near.recv(&byte, 1, 1ms); }) == std::errc::timed_out);
        MUST(pair.near.recv(&byte, 1, 1ms, ec) == 0 && ec == std::errc::timed_out);
        MUST(pair.far.send("x", 1, 1h, ec) == 1 && !ec);
        MUST(pair.near.recv(&byte, 1, 1h, ec) == 1 && !ec && byte == 'x');
        pair.near.close();
        MUST(error_of([&] { pair.far.send("x", 1); }) == std::errc::broken_pipe);
        pair.far.send_all("x", 1, 1h, ec);
        MUST(ec == std::errc::broken_pipe);
        const file_descriptor none;
        MUST(error_of([&] { none.accept(); }) == std::errc::bad_file_descriptor);
        MUST(!none.accept(1h, ec) && ec == std::errc::bad_file_descriptor);
        MUST(error_of([&] { none.read(&byte, 1); }) == std::errc::bad_file_descriptor);
        MUST(none.write("x", 1, 1h, ec) == 0 && ec == std::errc::bad_file_descriptor);
    });
}

TEST(connections_are_accepted)
{
    run_both([] {
        sockaddr_in address;
        file_descriptor listener = listen_at(address);
        MUST(error_of([&] { listener.accept(1ms); }) == std::errc::timed_out);
        thread server([&] {
            const file_descriptor accepted = listener.accept();
            char byte = 0;
            MUST(accepted.recv(&byte, 1) == 1);
            accepted.send_all(&byte, 1);
        });
        const auto *to = reinterpret_cast<const sockaddr *>(&address);
        const file_descriptor client = tcp_socket();
        client.connect(to, sizeof address, 1h);
        client.send_all("y", 1);
        char byte = 0;
        MUST(client.recv(&byte, 1) == 1 && byte == 'y');
        server.join();
        listener.close();
        std::error_code ec;
        const file_descriptor late = tcp_socket();
        late.connect(to, sizeof address, 1h, ec);
        MUST(ec == std::errc::connection_refused);
    });
}

TEST(cancellation_closes_what_the_thread_owns)
{
    run_both([] {
        ends pair = socket_pair();
        thread server(
            [](const file_descriptor &owned) {
                char byte;
                owned.recv(&byte, 1);
                MUST(false);
            },
            std::move(pair.far));
        gossamer::this_thread::sleep(1ms);
        server.cancel();
        server.join();
        char byte;
        MUST(pair.near.recv(&byte, 1, 1h) == 0);
    });
}

TEST(pipes_are_read_and_written)
{
    run_both([] {
        std::array<int, 2> fds{};
        MUST(!pipe2(fds.data(), O_CLOEXEC | O_NONBLOCK));
        const file_descriptor from(fds[0]), to(fds[1]);
        std::array<char, 8> bytes{};
        std::error_code ec;
        MUST(from.read(bytes.data(), bytes.size(), 1ms, ec) == 0 && ec == std::errc::timed_out);
        MUST(to.write("four", 4) == 4);
        MUST(from.read(bytes.data(), bytes.size()) == 4 && !std::strcmp(bytes.data(), "four"));
        MUST(gossamer::call(gs_wait_writable, to.get(), GS_NEVER) == 0);
    });
}
