#ifdef GS_TLS
#include "tests/cpp/fixture.hpp"

extern "C" {
#include "tests/tls/certificates.h"
}

#include <array>
#include <cstring>
#include <gossamer/tls.hpp>

using namespace std::chrono_literals;

namespace
{

struct contexts {
    certificate_files files;
    gossamer::tls_context server, client;

    static gossamer::tls_context make(const certificate_files &files, bool is_client)
    {
        gs_tls_certificate certificate{};
        gs_tls_options options{};
        certificate.chain = files.chain;
        certificate.key = files.key;
        options.is_client = is_client;
        options.ca_file = is_client ? files.chain : nullptr;
        options.certificates = &certificate;
        options.certificate_count = is_client ? 0 : 1;
        return gossamer::tls_context(options);
    }
    static certificate_files make_files()
    {
        certificate_files files{};
        certificate_make("server.test", &files);
        return files;
    }
    contexts() : files(make_files()), server(make(files, false)), client(make(files, true))
    {
    }
};

struct connection {
    gossamer::tls server, client;
};

connection connect_both(const contexts &contexts)
{
    std::array<int, 2> fds{};
    connection result;
    MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()));
    gossamer::task client([&] {
        gossamer::file_descriptor fd(fds[1]);
        return gossamer::tls::connect(contexts.client, std::move(fd), "server.test", 30s);
    });
    result.server = gossamer::tls::accept(contexts.server, gossamer::file_descriptor(fds[0]), 30s);
    result.client = client.join();
    return result;
}

} // namespace

TEST(tls_connections_send_receive_and_close)
{
    const contexts contexts;
    run_both([&] {
        auto [server, client] = connect_both(contexts);
        std::array<char, 10> bytes{};
        std::error_code ec;
        MUST(server && client && client.get());
        client.send_all("hello", 5, 30s);
        MUST(server.recv(bytes.data(), bytes.size()) == 5 &&
             !std::memcmp(bytes.data(), "hello", 5));
        client.shutdown(30s);
        MUST(server.recv(bytes.data(), bytes.size(), 30s, ec) == 0 && !ec);
        client.send_all("more", 4, 30s, ec);
        MUST(ec == std::errc::broken_pipe);
        server.close(30s);
        MUST(!server && client.recv(bytes.data(), bytes.size(), 30s) == 0);
    });
}

TEST(a_tls_connection_that_is_not_closed_is_aborted)
{
    const contexts contexts;
    run_both([&] {
        auto [server, client] = connect_both(contexts);
        client = gossamer::tls();
        char byte = 0;
        MUST(error_of([&, &tls = server] { (void)tls.recv(&byte, 1, 30s); }) ==
             std::errc::connection_reset);
    });
}

TEST(a_failure_of_tls_is_an_exception_with_a_reason)
{
    const contexts contexts;
    run_both([&] {
        std::array<int, 2> fds{};
        MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()));
        gossamer::file_descriptor near(fds[0]), far(fds[1]);
        far.send_all("GET / HTTP/1.0\r\n\r\n", 18);
        try {
            gossamer::tls::accept(contexts.server, std::move(near), 30s);
            MUST(false);
        } catch (const std::system_error &error) {
            MUST(error.code() == std::errc::protocol_error);
            MUST(std::strstr(error.what(), "HTTP"));
        }
    });
}
#endif
