/* The echo server of echo_threads.c in C++. An error ends its connection, and Ctrl-C the server:
 * every stack unwinds, and so every socket is closed. */
#include <gossamer/gossamer.hpp>
#include <gossamer/sys.h>

#include <arpa/inet.h>
#include <csignal>
#include <cstdio>

using namespace std::chrono_literals;

namespace
{

void serve(const gossamer::file_descriptor &client)
{
    char bytes[1024];
    while (std::size_t n = client.recv(bytes, sizeof bytes, 60s))
        client.send_all(bytes, n, 60s);
}

gossamer::file_descriptor listen_anywhere()
{
    sockaddr_in address{};
    auto *any = reinterpret_cast<sockaddr *>(&address);
    socklen_t length = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    gossamer::file_descriptor listener(
        gossamer::check(gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
    gossamer::check(gs_sys_bind(listener.get(), any, length));
    gossamer::check(gs_sys_listen(listener.get(), 128));
    gossamer::check(gs_sys_getsockname(listener.get(), any, &length));
    std::printf("echoing on port %d\n", ntohs(address.sin_port));
    std::fflush(stdout);
    return listener;
}

void echo()
{
    const gossamer::file_descriptor listener = listen_anywhere();
    const gossamer::thread interrupter([] {
        gossamer::call(gs_wait_signal, SIGINT, GS_NEVER);
        gs_threads_cancel_all();
    });
    for (;;)
        gossamer::thread(serve, listener.accept()).detach();
}

} // namespace

int main()
{
    try {
        gossamer::run(echo);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
