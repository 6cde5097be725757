#include "tests/cpp/fixture.hpp"

#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using gossamer::task;
using gossamer::thread;

namespace
{

int add(int a, int b)
{
    return a + b;
}

[[noreturn]] void fail_with(const char *what)
{
    throw std::runtime_error(what);
}

std::string what_is_thrown_by(task<int> &failing)
{
    try {
        failing.join();
    } catch (const std::runtime_error &error) {
        return error.what();
    }
    return "nothing";
}

/* Sets the state to 1 while it exists, and to 2 afterwards. */
class presence
{
  public:
    explicit presence(std::atomic<int> &state) : state_(state)
    {
        state_ = 1;
    }
    ~presence()
    {
        state_ = 2;
    }
    presence(const presence &) = delete;
    presence &operator=(const presence &) = delete;

  private:
    std::atomic<int> &state_;
};

void wait_present(std::atomic<int> &state)
{
    const presence here(state);
    gossamer::this_thread::sleep(gossamer::deadline::never());
    MUST(false);
}

/* A member function, an object that can only be moved, and a result that can only be moved. */
struct adder {
    std::unique_ptr<int> add(std::unique_ptr<int> to) const
    {
        *to += amount;
        return to;
    }
    int amount;
};

} // namespace

TEST(run_returns_what_the_first_thread_returns)
{
    CHECK_EQ(gossamer::run([] { return add(1, 2); }), 3);
    bool has_run = false;
    gossamer::run([&] { has_run = true; });
    CHECK(has_run);
    gossamer::run_options options{};
    options.workers = 2;
    auto made = gossamer::run(options, [] { return std::make_unique<int>(5); });
    CHECK_EQ(*made, 5);
}

TEST(run_throws_what_the_first_thread_throws_when_all_have_ended)
{
    std::atomic<int> state{0};
    std::string caught;
    try {
        gossamer::run([&] {
            thread([&] {
                gossamer::this_thread::sleep(1ms);
                const presence here(state);
            }).detach();
            fail_with("the first");
        });
    } catch (const std::runtime_error &error) {
        caught = error.what();
    }
    CHECK_STR(caught.c_str(), "the first");
    CHECK_EQ(state, 2);
}

TEST(run_throws_the_errors_of_the_runtime)
{
    gossamer::run_options options{};
    options.stack_size = SIZE_MAX;
    CHECK(error_of([&] { gossamer::run(options, [] {}); }) == std::errc::invalid_argument);
    gossamer::run(
        [] { MUST(error_of([] { gossamer::run([] {}); }) == std::errc::device_or_resource_busy); });
}

TEST(run_throws_when_threads_wait_for_each_other)
{
    static gossamer::semaphore never(0);
    gossamer::run_options options{};
    options.is_silent = true;
    const auto error = error_of([&] { gossamer::run(options, [] { never.acquire(); }); });
    CHECK(error == std::errc::resource_deadlock_would_occur);
}

TEST(a_task_returns_its_result)
{
    run_both([] {
        task sum(add, 20, 22);
        static_assert(std::is_same_v<decltype(sum), task<int>>);
        MUST(sum.join() == 42 && !sum.joinable());

        task moved(&adder::add, adder{2}, std::make_unique<int>(3));
        MUST(*moved.join() == 5);

        const std::string text = "text";
        task copied([](const std::string &given) -> const std::string & { return given; }, text);
        static_assert(std::is_same_v<decltype(copied), task<std::string>>);
        MUST(copied.join() == "text");

        int number = 1;
        thread([](int &to) { to = 7; }, std::ref(number)).join();
        MUST(number == 7);

        thread discards(add, 1, 1);
        discards.join();
    });
}

TEST(an_exception_ends_its_thread_and_is_thrown_again_by_join)
{
    run_both([] {
        task<int> failing([]() -> int { fail_with("in a thread"); });
        task<int> other(add, 1, 2);
        MUST(what_is_thrown_by(failing) == "in a thread");
        MUST(!failing.joinable() && other.join() == 3);
        task<int> odd([]() -> int { throw 7; });
        int caught = 0;
        try {
            odd.join();
        } catch (int number) {
            caught = number;
        }
        MUST(caught == 7);
    });
}

TEST(an_exception_of_a_detached_thread_is_lost)
{
    run_both([] {
        thread(fail_with, "for nobody").detach();
        {
            const thread canceled(fail_with, "for nobody");
        }
        gossamer::this_thread::sleep(1ms);
    });
}

TEST(arguments_are_destroyed_with_the_thread)
{
    run_both([] {
        thread one([](const counted &given) { MUST(*given.value == 4); }, counted(4));
        one.join();
        MUST(counted::live == 0);
        gossamer::semaphore ended(0);
        thread([&ended](counted given) { MUST(*given.value == 5), ended.release(); }, counted(5))
            .detach();
        ended.acquire();
    });
    CHECK_EQ(counted::live, 0);
}

TEST(the_result_is_destroyed_though_nobody_joins)
{
    run_both([] {
        task([] { return counted(1); }).detach();
        task later([] { return counted(2); });
        gossamer::this_thread::sleep(1ms);
        later.detach();
        task canceled([] { return counted(3); });
    });
    CHECK_EQ(counted::live, 0);
}

TEST(cancellation_unwinds_the_stack)
{
    run_both([] {
        std::atomic<int> state{0};
        thread waiting(wait_present, std::ref(state));
        while (!state)
            gossamer::this_thread::sleep(100us);
        waiting.cancel();
        waiting.join();
        MUST(state == 2);
    });
}

TEST(a_canceled_task_has_no_result)
{
    run_both([] {
        task waiting([] {
            gossamer::this_thread::sleep(gossamer::deadline::never());
            return 1;
        });
        waiting.cancel();
        MUST(error_of([&] { waiting.join(); }) == std::errc::operation_canceled);
    });
}

TEST(cancellation_lasts_until_the_thread_ends)
{
    run_both([] {
        thread stubborn([] {
            for (int i = 0; i < 3; i++)
                MUST(is_canceled_in([] { gossamer::this_thread::sleep(1h); }));
            MUST(gossamer::this_thread::is_canceled());
            {
                const gossamer::cancellation_disabled disabled;
                gossamer::this_thread::sleep(1ms);
            }
            std::error_code ec;
            gossamer::call(ec, gs_thread_sleep, GS_NEVER);
            MUST(ec == std::errc::operation_canceled);
        });
        stubborn.cancel();
        stubborn.join();
    });
}

TEST(handlers_of_errors_let_cancellation_pass)
{
    run_both([] {
        bool is_handled = false;
        thread waiting([&] {
            try {
                gossamer::this_thread::sleep(1h);
            } catch (const std::exception &) {
                is_handled = true;
            }
        });
        waiting.cancel();
        waiting.join();
        MUST(!is_handled);
    });
}

TEST(the_destructor_of_a_thread_cancels_and_joins)
{
    run_both([] {
        std::atomic<int> state{0};
        {
            thread waiting(wait_present, std::ref(state));
            while (!state)
                gossamer::this_thread::sleep(100us);
        }
        MUST(state == 2);
    });
}

TEST(the_destructor_waits_though_its_thread_was_canceled)
{
    run_both([] {
        std::atomic<int> inner{0}, outer{0};
        gossamer::semaphore is_canceled(0);
        thread owner([&] {
            const presence here(outer);
            thread owned([&] {
                const gossamer::cancellation_disabled disabled;
                is_canceled.acquire();
                gossamer::this_thread::sleep(1ms);
                const presence there(inner);
            });
            owned.join();
        });
        while (!outer)
            gossamer::this_thread::sleep(100us);
        owner.cancel();
        is_canceled.release();
        owner.join();
        MUST(inner == 2 && outer == 2);
    });
}

TEST(a_thread_may_destroy_its_own_task)
{
    run_both([] {
        gossamer::semaphore stored(0), destroyed(0);
        auto *own = new thread;
        *own = thread([&] {
            stored.acquire();
            delete own;
            destroyed.release();
        });
        stored.release();
        destroyed.acquire();
    });
}

TEST(join_has_a_deadline)
{
    run_both([] {
        gossamer::semaphore leave(0);
        task waiting([&] { return leave.acquire(), 3; });
        MUST(error_of([&] { waiting.join(1ms); }) == std::errc::timed_out);
        MUST(error_of([&] { waiting.join(gossamer::deadline::now()); }) == std::errc::timed_out);
        MUST(waiting.joinable());
        leave.release();
        MUST(waiting.join(1h) == 3);
    });
}

TEST(tasks_are_moved)
{
    static_assert(!std::is_copy_constructible_v<thread> && !std::is_copy_assignable_v<thread>);
    static_assert(std::is_nothrow_move_constructible_v<thread>);
    run_both([] {
        thread none;
        MUST(!none.joinable() && !none.native_handle());
        task first(add, 1, 2);
        task second(std::move(first));
        MUST(!first.joinable() && second.joinable());
        first = std::move(second);
        MUST(first.join() == 3 && !second.joinable());

        std::atomic<int> state{0};
        thread replaced(wait_present, std::ref(state));
        while (!state)
            gossamer::this_thread::sleep(100us);
        replaced = thread([] {});
        MUST(state == 2);
        auto &same = replaced;
        replaced = std::move(same);
        MUST(replaced.joinable());

        std::vector<thread> several;
        for (int i = 0; i < 10; i++)
            several.emplace_back([] {});
        for (thread &one : several)
            one.join();
    });
}

TEST(a_task_without_a_thread_cannot_be_joined)
{
    run_both([] {
        thread none;
        none.cancel();
        MUST(error_of([&] { none.join(); }) == std::errc::invalid_argument);
        MUST(error_of([&] { none.detach(); }) == std::errc::invalid_argument);
    });
}

TEST(a_thread_that_cannot_be_started_is_an_error)
{
    gossamer::run([] {
        gossamer::thread_attributes attributes{};
        attributes.worker = 17;
        const auto error = error_of([&] { const thread none(attributes, [held = counted(1)] {}); });
        MUST(error == std::errc::invalid_argument && counted::live == 0);
    });
}

TEST(attributes_come_first)
{
    gossamer::run([] {
        gossamer::thread_attributes attributes{};
        attributes.name = "named";
        task named(attributes, [] { return std::string(gs_thread_name(gs_thread_self())); });
        MUST(named.join() == "named");
    });
}

TEST(exit_thread_unwinds_the_stack)
{
    run_both([] {
        std::atomic<int> state{0};
        thread leaving([&] {
            const presence here(state);
            gossamer::exit_thread();
        });
        leaving.join();
        MUST(state == 2);
        task<int> without([]() -> int { gossamer::exit_thread(); });
        MUST(error_of([&] { without.join(); }) == std::errc::operation_canceled);
    });
    gossamer::run([] { gossamer::exit_thread(); });
}

TEST(gs_thread_exit_does_not_unwind_the_stack_but_leaks_no_arguments)
{
    run_both([] {
        std::atomic<int> state{0};
        thread leaving(
            [&](const counted &) {
                const presence here(state);
                gs_thread_exit(nullptr);
            },
            counted(1));
        leaving.join();
        MUST(state == 1 && counted::live == 0);
        thread([](const counted &) { gs_thread_exit(nullptr); }, counted(1)).detach();
    });
    CHECK_EQ(counted::live, 0);
}

TEST(functions_of_c_are_called_with_their_errors_as_exceptions)
{
    run_both([] {
        MUST(gossamer::check(5) == 5);
        MUST(error_of([] { gossamer::check(-ENOENT); }) == std::errc::no_such_file_or_directory);
        MUST(is_canceled_in([] { gossamer::check(-ECANCELED); }));
        MUST(error_of([] { gossamer::call(gs_thread_park, uint64_t{0}); }) == std::errc::timed_out);
        std::error_code ec = std::make_error_code(std::errc::io_error);
        gs_thread_unpark(gs_thread_self());
        MUST(gossamer::call(ec, gs_thread_park, GS_NEVER) == 0 && !ec);
    });
}

TEST(errors_of_the_library_have_a_category_of_their_own)
{
    const std::error_code no_name = gossamer::code_of(-GS_ENONAME);
    CHECK(no_name == gossamer::errc::no_name);
    CHECK(no_name != gossamer::errc::name_server);
    CHECK(no_name.message() == gs_strerror(-GS_ENONAME));
    CHECK(no_name.category() == gossamer::error_category());
    CHECK(gossamer::code_of(-ETIMEDOUT) == std::errc::timed_out);
    CHECK(!gossamer::code_of(7));
    run_both([] {
        MUST(error_of([] { gossamer::check(-GS_ENAMESERVER); }) == gossamer::errc::name_server);
        std::error_code ec;
        auto fail = [] { return -GS_ENONAME; };
        MUST(gossamer::call(ec, fail) == -GS_ENONAME && ec == gossamer::errc::no_name);
    });
}

TEST(many_threads_on_several_workers_count_together)
{
    static std::atomic<int> ended;
    gossamer::run_options options{};
    options.workers = 4;
    const int sum = gossamer::run(options, [] {
        gossamer::thread_attributes attributes{};
        attributes.migrates = true;
        std::vector<task<int>> tasks;
        for (int i = 0; i < 2000; i++) {
            tasks.emplace_back(attributes, [i] {
                gossamer::this_thread::yield();
                gossamer::this_thread::sleep(10us);
                return i;
            });
            thread(attributes, [] { ended++; }).detach();
        }
        int total = 0;
        for (auto &one : tasks)
            total += one.join();
        return total;
    });
    CHECK_EQ(sum, 2000 * 1999 / 2);
    CHECK_EQ(ended, 2000);
}
