#include "tests/cpp/fixture.hpp"

#include <gossamer/coroutine.hpp>
#include <gossamer/net.hpp>
#include <new>
#include <stdexcept>
#include <vector>

#ifndef __has_feature
#define __has_feature(feature_) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define GS_TSAN 1
#else
#define GS_TSAN 0
#endif

using namespace std::chrono_literals;
using gossamer::deadline;
using gossamer::async::descriptor;
using gossamer::async::loop;
using gossamer::async::sleep;
using gossamer::async::spawned;
using gossamer::async::task;
using gossamer::async::when_all;

namespace
{

int allocations_left = -1; /* that succeed; negative: all */

} // namespace

#if !GS_TSAN /* clang's thread sanitizer has these, and they cannot be replaced */
void *operator new(std::size_t n)
{
    void *memory = allocations_left ? std::malloc(n ? n : 1) : nullptr;
    if (!memory)
        throw std::bad_alloc();
    if (allocations_left > 0)
        allocations_left--;
    return memory;
}

[[gnu::noinline]] void operator delete(void *memory) noexcept
{
    std::free(memory);
}

[[gnu::noinline]] void operator delete(void *memory, std::size_t) noexcept
{
    std::free(memory);
}
#endif

namespace
{

struct end_pair {
    descriptor near, far;
};

end_pair pair_on(loop &on)
{
    ends both = socket_pair();
    return {descriptor(on, std::move(both.near)), descriptor(on, std::move(both.far))};
}

/* Each poller that this machine has. */
template <class F> void run_on_pollers(F fn)
{
    for (const char *poller : {"epoll", "io_uring", "poll"}) {
        setenv("GS_POLLER", poller, 1);
        fn();
    }
    unsetenv("GS_POLLER");
}

task<int> sum(int a, int b)
{
    co_return a + b;
}

task<int> late_sum(int a, int b)
{
    co_await sleep(1ms);
    co_return co_await sum(a, b);
}

task<void> fail_late()
{
    co_await sleep(1ms);
    throw std::runtime_error("late");
}

task<void> sleep_on(counted owned, bool &ret_is_canceled)
{
    const counted local(2);
    try {
        co_await sleep(deadline::never());
    } catch (const gossamer::canceled &) {
        ret_is_canceled = true;
        throw;
    }
    MUST(!owned.value);
}

template <class F> std::string text_of(F fn)
{
    try {
        fn();
    } catch (const std::runtime_error &error) {
        return error.what();
    }
    return "";
}

} // namespace

TEST(a_task_returns_its_result_or_throws)
{
    loop loop;
    CHECK_EQ(loop.run(sum(1, 2)), 3);
    CHECK_EQ(loop.run(late_sum(20, 22)), 42);
    CHECK(text_of([&] { loop.run(fail_late()); }) == "late");
    const auto nested = []() -> task<std::unique_ptr<int>> {
        MUST(co_await late_sum(1, 2) + co_await sum(3, 4) == 10);
        std::string caught;
        try {
            co_await fail_late();
        } catch (const std::runtime_error &error) {
            caught = error.what();
        }
        MUST(caught == "late");
        co_return std::make_unique<int>(5);
    };
    CHECK_EQ(*loop.run(nested()), 5);
}

TEST(a_task_that_does_not_wait_needs_no_stack_when_it_has_ended)
{
    loop loop;
    const auto many = []() -> task<long> {
        long total = 0;
        for (int i = 0; i < 300000; i++)
            total += co_await sum(i, 1);
        co_return total;
    };
    CHECK_EQ(loop.run(many()), 45000150000);
}

TEST(a_task_that_is_never_awaited_does_not_start)
{
    const auto never = [](counted) -> task<void> {
        MUST(false);
        co_return;
    };
    {
        const task<void> unused = never(counted(1));
        CHECK_EQ(counted::live, 1);
    }
    CHECK_EQ(counted::live, 0);
}

TEST(coroutines_receive_and_send)
{
    run_on_pollers([] {
        loop loop;
        auto [near, far] = pair_on(loop);
        const std::string sent(1000000, 'x');
        const auto send = [](descriptor to, const std::string &text) -> task<void> {
            MUST(co_await to.send("a", 1, 1h) == 1);
            std::error_code ec;
            MUST(co_await to.send_all(text.data(), text.size(), 1h, ec) == text.size() && !ec);
        };
        const auto receive = [](descriptor from) -> task<std::size_t> {
            std::size_t all = 0;
            std::vector<char> bytes(10000);
            while (const std::size_t n = co_await from.recv(bytes.data(), bytes.size(), 1h))
                all += n;
            co_return all;
        };
        loop.spawn(send(std::move(far), sent));
        MUST(loop.run(receive(std::move(near))) == sent.size() + 1);
    });
}

TEST(connections_are_made_and_accepted_by_coroutines)
{
    run_on_pollers([] {
        loop loop;
        const descriptor listener(loop, gossamer::listen("127.0.0.1:0"));
        sockaddr_in address{};
        socklen_t length = sizeof address;
        auto *to = reinterpret_cast<sockaddr *>(&address);
        MUST(!getsockname(listener.get(), to, &length));
        const auto serve = [&]() -> task<void> {
            const descriptor client = co_await listener.accept(1h);
            char byte = 0;
            MUST(co_await client.recv(&byte, 1, 1h) == 1);
            co_await client.send_all(&byte, 1, 1h);
        };
        const auto ask = [&]() -> task<char> {
            const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
            const descriptor server(loop, gossamer::file_descriptor(fd));
            co_await server.connect(to, length, 1h);
            char byte = 'y';
            co_await server.send_all(&byte, 1, 1h);
            byte = 0;
            MUST(co_await server.recv(&byte, 1, 1h) == 1);
            MUST(co_await server.recv(&byte, 1, 1h) == 0);
            co_return byte;
        };
        loop.spawn(serve());
        MUST(loop.run(ask()) == 'y');
        /* A number that was used before. */
        loop.spawn(serve());
        MUST(loop.run(ask()) == 'y');
    });
}

TEST(a_wait_ends_at_its_deadline)
{
    run_on_pollers([] {
        loop loop;
        auto [near, far] = pair_on(loop);
        const auto receive = [](const descriptor &from, const descriptor &to) -> task<void> {
            char byte = 0;
            std::error_code ec;
            MUST(co_await from.recv(&byte, 1, 1ms, ec) == 0 && ec == std::errc::timed_out);
            MUST(co_await from.recv(&byte, 1, deadline::now(), ec) == 0);
            MUST(ec == std::errc::timed_out);
            co_await to.send_all("z", 1, 1h);
            MUST(co_await from.recv(&byte, 1, 1h, ec) == 1 && !ec && byte == 'z');
            MUST(!co_await from.accept(1ms, ec) && ec);
            co_await from.recv(&byte, 1, 1ms);
        };
        MUST(error_of([&, &from = near, &to = far] { loop.run(receive(from, to)); }) ==
             std::errc::timed_out);
    });
}

TEST(what_has_arrived_is_received_without_a_wait)
{
    run_on_pollers([] {
        loop loop;
        auto [near, far] = pair_on(loop);
        const auto receive = [](const descriptor &from, const descriptor &to) -> task<void> {
            char bytes[4];
            co_await to.send_all("abcd", 4, deadline::now());
            MUST(co_await from.recv(bytes, 2, deadline::now()) == 2);
            MUST(co_await from.recv(bytes, 4) == 2 && bytes[1] == 'd');
        };
        loop.run(receive(near, far));
    });
}

TEST(a_descriptor_that_is_none_is_an_error)
{
    run_on_pollers([] {
        loop loop;
        const auto use = [](const descriptor &none) -> task<void> {
            char byte = 0;
            std::error_code ec;
            for (int i = 0; i < 2; i++) {
                MUST(co_await none.recv(&byte, 1, 1h, ec) == 0);
                MUST(ec == std::errc::bad_file_descriptor);
                MUST(co_await none.send_all(&byte, 1, 1h, ec) == 0);
                MUST(ec == std::errc::bad_file_descriptor);
                MUST(!co_await none.accept(1h, ec));
                MUST(ec == std::errc::bad_file_descriptor);
            }
        };
        loop.run(use(descriptor(loop, gossamer::file_descriptor())));
    });
}

TEST(a_send_waits_for_room)
{
    run_on_pollers([] {
        loop loop;
        auto [near, far] = pair_on(loop);
        const std::string large(1000000, 'x');
        const auto fill = [&large](const descriptor &to) -> task<void> {
            std::error_code ec;
            co_await to.send_all(large.data(), large.size(), 1ms, ec);
            MUST(ec == std::errc::timed_out);
            while (co_await to.send(large.data(), large.size(), 1ms, ec))
                MUST(!ec);
            MUST(ec == std::errc::timed_out);
            co_await to.send_all(large.data(), large.size());
        };
        spawned filling = loop.spawn(fill(far));
        const auto cancel = [&]() -> task<void> {
            co_await sleep(20ms);
            filling.cancel();
        };
        loop.run(cancel());
        MUST(!filling.is_running());
    });
}

TEST(a_timer_that_is_left_from_an_earlier_wait_ends_no_later_one)
{
    loop loop;
    auto [near, far] = pair_on(loop);
    const auto receive = [](const descriptor &from) -> task<void> {
        char byte = 0;
        MUST(co_await from.recv(&byte, 1, 20ms) == 1);
        MUST(co_await from.recv(&byte, 1) == 1);
        MUST(co_await from.recv(&byte, 1, 1h) == 1);
    };
    const auto send = [](const descriptor &to) -> task<void> {
        co_await to.send_all("a", 1);
        co_await sleep(40ms);
        co_await to.send_all("b", 1);
        co_await sleep(1ms);
        co_await to.send_all("c", 1);
    };
    loop.spawn(send(far));
    loop.run(receive(near));
}

TEST(a_canceled_coroutine_unwinds)
{
    run_on_pollers([] {
        loop loop;
        auto [near, far] = pair_on(loop);
        bool slept = false;
        const auto receive = [](const descriptor &from, const counted &) -> task<int> {
            char byte = 0;
            std::error_code ec;
            MUST(co_await from.recv(&byte, 1, 1h, ec) == 0);
            MUST(ec == std::errc::operation_canceled);
            co_await from.recv(&byte, 1, 1h);
            co_return 1;
        };
        const auto outer = [&](const descriptor &from) -> task<void> {
            const counted held(1);
            co_await receive(from, held);
            MUST(false);
        };
        spawned first = loop.spawn(outer(near));
        spawned second = loop.spawn(sleep_on(counted(1), slept));
        MUST(counted::live == 3 && first.is_running());
        first.cancel();
        MUST(first.is_running()); // it is resumed by the loop
        second.cancel();
        loop.run();
        MUST(counted::live == 0 && slept && !first.is_running() && !second.is_running());
        loop.spawn(sleep_on(counted(1), slept));
        loop.cancel();
        loop.run();
        MUST(counted::live == 0);
    });
}

TEST(a_task_of_run_that_is_canceled_is_no_error_without_a_result)
{
    loop loop;
    bool is_canceled = false;
    const auto cancel = [&]() -> task<void> {
        co_await sleep(1ms);
        loop.cancel();
    };
    const auto wait = []() -> task<int> {
        co_await sleep(deadline::never());
        co_return 1;
    };
    loop.spawn(cancel());
    loop.run(sleep_on(counted(1), is_canceled));
    CHECK(is_canceled);
    loop.spawn(cancel());
    CHECK(is_canceled_in([&] { loop.run(wait()); }));
}

TEST(coroutines_that_wait_are_destroyed_with_their_loop)
{
    run_on_pollers([] {
        bool is_canceled = false;
        int fd = -1;
        spawned left;
        {
            loop loop;
            auto pair = pair_on(loop);
            fd = pair.near.get();
            const auto receive = [](descriptor from) -> task<void> {
                const counted local(1);
                std::vector<char> bytes(1000);
                co_await from.recv(bytes.data(), bytes.size(), 1h);
            };
            const auto both = [&](descriptor from) -> task<void> {
                co_await when_all(receive(std::move(from)), sleep_on(counted(1), is_canceled));
            };
            const auto work = []() -> task<int> {
                const counted local(1);
                co_return co_await gossamer::async::run_blocking([] { return 1; });
            };
            left = loop.spawn(both(std::move(pair.near)));
            loop.spawn(receive(std::move(pair.far)));
            loop.spawn(sleep_on(counted(1), is_canceled));
            loop.spawn(work());
            gs_loop_run_once(loop.native_handle(), 0);
            MUST(counted::live >= 6 && left.is_running());
        }
        MUST(counted::live == 0 && !is_canceled && !left.is_running());
        MUST(fcntl(fd, F_GETFD) < 0);
    });
}

TEST(a_descriptor_that_is_closed_ends_the_waits_of_others)
{
    run_on_pollers([] {
        loop loop;
        auto [near, far] = pair_on(loop);
        const auto receive = [](const descriptor &from) -> task<void> {
            char byte = 0;
            std::error_code ec;
            co_await from.recv(&byte, 1, 1h, ec);
            MUST(ec == std::errc::bad_file_descriptor);
        };
        const auto close = [](descriptor &closed) -> task<void> {
            co_await sleep(1ms);
            closed.close();
            MUST(!closed && closed.get() == -1);
        };
        loop.spawn(close(near));
        loop.run(receive(near));
    });
}

TEST(several_tasks_run_at_once)
{
    run_on_pollers([] {
        loop loop;
        const auto all = []() -> task<int> {
            const auto [a, b, none] = co_await when_all(
                late_sum(1, 2), sum(3, 4), []() -> task<void> { co_await sleep(2ms); }());
            static_cast<void>(none);
            std::vector<task<int>> more;
            for (int i = 0; i < 100; i++)
                more.push_back(i % 2 ? late_sum(i, 0) : sum(i, 0));
            int total = a + b;
            for (const int each : co_await when_all(std::move(more)))
                total += each;
            co_await when_all(std::vector<task<void>>());
            co_return total;
        };
        MUST(loop.run(all()) == 10 + 4950);
    });
}

TEST(the_first_exception_cancels_the_other_tasks)
{
    loop loop;
    bool is_canceled = false, is_later_canceled = false;
    const auto fail = []() -> task<void> {
        throw std::runtime_error("at once");
        co_return;
    };
    const auto late = [&]() -> task<void> {
        co_await when_all(sleep_on(counted(1), is_canceled), fail_late());
    };
    const auto early = [&]() -> task<void> {
        co_await when_all(fail(), sleep_on(counted(1), is_later_canceled));
    };
    CHECK(text_of([&] { loop.run(late()); }) == "late");
    CHECK(is_canceled && counted::live == 0);
    CHECK(text_of([&] { loop.run(early()); }) == "at once");
    CHECK(is_later_canceled && counted::live == 0);
    is_canceled = is_later_canceled = false;
    spawned outer = loop.spawn([](bool &first, bool &second) -> task<void> {
        co_await when_all(sleep_on(counted(1), first), sleep_on(counted(1), second));
    }(is_canceled, is_later_canceled));
    outer.cancel();
    loop.run();
    CHECK(is_canceled && is_later_canceled && counted::live == 0);
}

TEST(functions_that_block_run_in_other_kernel_threads)
{
    loop loop;
    const auto work = []() -> task<std::string> {
        const pthread_t self = pthread_self();
        MUST(co_await gossamer::async::run_blocking(
            [=] { return !pthread_equal(self, pthread_self()); }));
        std::string caught;
        try {
            co_await gossamer::async::run_blocking([] { throw std::runtime_error("worked"); });
        } catch (const std::runtime_error &error) {
            caught = error.what();
        }
        co_return caught;
    };
    CHECK(loop.run(work()) == "worked");
}

TEST(any_allocation_may_fail)
{
    if (GS_TSAN)
        SKIP("allocations do not fail with the thread sanitizer");
    const auto all = []() -> task<int> {
        const counted local(1);
        const auto [a, b] = co_await when_all(late_sum(1, 2), sum(3, 4));
        std::vector<task<int>> more;
        more.push_back(late_sum(5, 6));
        more.push_back(sum(7, 8));
        const std::vector<int> sums = co_await when_all(std::move(more));
        co_return a + b + sums[0] + sums[1];
    };
    for (int failing = 0, result = 0; !result; failing++) {
        loop loop;
        allocations_left = failing;
        try {
            result = loop.run(all());
            CHECK_EQ(result, 36);
        } catch (const std::bad_alloc &) {
            CHECK(failing < 100);
        }
        allocations_left = -1;
        CHECK_EQ(counted::live, 0);
    }
}

TEST(a_signal_resumes_a_coroutine)
{
    loop loop;
    const auto wait = []() -> task<void> {
        std::error_code ec;
        co_await gossamer::async::wait_signal(SIGUSR1, 1ms, ec);
        MUST(ec == std::errc::timed_out);
        co_await gossamer::async::wait_signal(-1, 1ms, ec);
        MUST(ec == std::errc::invalid_argument);
    };
    const auto take = []() -> task<void> { co_await gossamer::async::wait_signal(SIGUSR1, 1h); };
    const auto raise = [&]() -> task<void> {
        struct sigaction action = {};
        while (action.sa_handler == SIG_DFL) {
            co_await sleep(1ms);
            sigaction(SIGUSR1, nullptr, &action);
        }
        kill(getpid(), SIGUSR1);
    };
    signal(SIGUSR1, SIG_DFL);
    loop.run(wait());
    loop.spawn(raise());
    loop.run(take());
}
