/* Fixture of the tests of the C++ interface. A failed check ends the program: a test cannot be left
 * from a user thread, nor past destructors. */
#ifndef GS_TESTS_CPP_FIXTURE_HPP
#define GS_TESTS_CPP_FIXTURE_HPP

#include "tests/test.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <gossamer/gossamer.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#define MUST(...) must_hold((__VA_ARGS__), __FILE__, __LINE__, #__VA_ARGS__)

inline void must_hold(bool holds, const char *file, int line, const char *what)
{
    if (holds)
        return;
    std::fprintf(stderr, "%s:%d: not true: %s\n", file, line, what);
    std::fflush(stdout);
    std::_Exit(1);
}

/* Run fn in the first thread, with one worker and with several. */
template <class F> void run_both(F fn)
{
    for (unsigned workers : {1U, 3U}) {
        gossamer::run_options options{};
        options.workers = workers;
        gossamer::run(options, fn);
    }
}

/* The error that fn throws; none if it throws none. */
template <class F> std::error_code error_of(F fn)
{
    try {
        fn();
    } catch (const std::system_error &error) {
        return error.code();
    }
    return {};
}

template <class F> bool is_canceled_in(F fn)
{
    try {
        fn();
    } catch (const gossamer::canceled &) {
        return true;
    }
    return false;
}

struct ends {
    gossamer::file_descriptor near, far;
};

inline ends socket_pair()
{
    int fds[2];
    MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds));
    return {gossamer::file_descriptor(fds[0]), gossamer::file_descriptor(fds[1])};
}

/* The address of a listener of IPv4 on this machine. */
inline std::string address_of(const gossamer::file_descriptor &listener)
{
    sockaddr_in address{};
    socklen_t length = sizeof address;
    MUST(!getsockname(listener.get(), reinterpret_cast<sockaddr *>(&address), &length));
    return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

/* Counts the objects that exist; some own memory, so that a leak is also found by a sanitizer. */
class counted
{
  public:
    static inline std::atomic<int> live{0};

    explicit counted(int new_value) : value(std::make_unique<int>(new_value))
    {
        live++;
    }
    counted(const counted &other) : value(std::make_unique<int>(*other.value))
    {
        live++;
    }
    counted(counted &&other) noexcept : value(std::move(other.value))
    {
        live++;
    }
    counted &operator=(counted &&other) noexcept
    {
        value = std::move(other.value);
        return *this;
    }
    ~counted()
    {
        live--;
    }

    std::unique_ptr<int> value;
};

#endif
