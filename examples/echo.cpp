/* The echo server of echo_threads.c in C++. An error ends its connection, and Ctrl-C the server:
 * every stack unwinds, and so every socket is closed. */
#include <gossamer/gossamer.hpp>

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
    gossamer::file_descriptor listener = gossamer::listen("127.0.0.1:0");
    sockaddr_in address{};
    socklen_t length = sizeof address;
    getsockname(listener.get(), reinterpret_cast<sockaddr *>(&address), &length);
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
