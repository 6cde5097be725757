/* The echo server of echo.cpp with coroutines on an event loop: one kernel thread, and no stacks.
 * An error ends its connection, and Ctrl-C the server: every coroutine unwinds, and so every socket
 * is closed. */
#include <gossamer/coroutine.hpp>
#include <gossamer/net.hpp>

#include <arpa/inet.h>
#include <csignal>
#include <cstdio>

using namespace std::chrono_literals;
namespace async = gossamer::async;

namespace
{

async::task<void> serve(async::descriptor client)
{
    char bytes[1024];
    while (const std::size_t n = co_await client.recv(bytes, sizeof bytes, 60s))
        co_await client.send_all(bytes, n, 60s);
}

async::task<void> accept_all(async::loop &loop)
{
    const async::descriptor listener(loop, gossamer::listen("127.0.0.1:0"));
    sockaddr_in address{};
    socklen_t length = sizeof address;
    getsockname(listener.get(), reinterpret_cast<sockaddr *>(&address), &length);
    std::printf("echoing on port %d\n", ntohs(address.sin_port));
    std::fflush(stdout);
    for (;;)
        loop.spawn(serve(co_await listener.accept()));
}

async::task<void> interrupt(async::loop &loop)
{
    co_await async::wait_signal(SIGINT);
    loop.cancel();
}

} // namespace

int main()
{
    try {
        async::loop loop;
        loop.spawn(interrupt(loop));
        loop.run(accept_all(loop));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
