#include "tests/cpp/fixture.hpp"

#include <stdexcept>
#include <string>

using namespace std::chrono_literals;
using gossamer::scope;

namespace
{

constexpr int members = 20;

void wait_forever()
{
    gossamer::this_thread::sleep(gossamer::deadline::never());
}

/* What fn throws, as text. */
template <class F> std::string thrown_by(F fn)
{
    try {
        fn();
    } catch (const std::exception &error) {
        return error.what();
    } catch (const gossamer::canceled &) {
        return "canceled";
    }
    return "nothing";
}

} // namespace

TEST(wait_returns_when_all_members_have_ended)
{
    run_both([] {
        std::atomic<int> ended{0};
        scope all;
        for (int i = 0; i < members; i++)
            all.spawn([&](int number) { return ended += number; }, 1);
        all.wait();
        MUST(ended == members);
    });
}

TEST(destructor_waits)
{
    run_both([] {
        std::atomic<int> ended{0};
        {
            scope all(3);
            for (int i = 0; i < members; i++)
                all.spawn([&] {
                    gossamer::this_thread::yield();
                    ended++;
                });
        }
        MUST(ended == members);
    });
}

TEST(exception_of_a_member_cancels_the_others_and_is_thrown_by_wait)
{
    run_both([] {
        std::atomic<int> canceled{0}, started{0};
        scope all;
        for (int i = 0; i < members; i++)
            all.spawn([&] {
                started++;
                MUST(is_canceled_in(wait_forever));
                canceled++;
                throw gossamer::canceled();
            });
        while (started < members)
            gossamer::this_thread::yield();
        all.spawn([] { throw std::runtime_error("the first"); });
        MUST(thrown_by([&] { all.wait(); }) == "the first");
        MUST(canceled == members);
        MUST(is_canceled_in([&] { all.spawn(wait_forever); }));
    });
}

TEST(exception_in_the_block_cancels_the_members)
{
    run_both([] {
        const auto fail = [] {
            scope all;
            for (int i = 0; i < members; i++)
                all.spawn(wait_forever);
            throw std::runtime_error("in the block");
        };
        MUST(thrown_by(fail) == "in the block");
    });
}

TEST(scope_in_a_destructor_during_unwinding_waits_normally)
{
    run_both([] {
        std::atomic<int> ended{0};
        struct cleaner {
            std::atomic<int> &count;
            ~cleaner()
            {
                scope all;
                all.spawn([&] {
                    gossamer::this_thread::sleep(1ms);
                    count++;
                });
            }
        };
        const auto fail = [&] {
            const cleaner last{ended};
            throw std::runtime_error("unwinding");
        };
        MUST(thrown_by(fail) == "unwinding");
        MUST(ended == 1);
    });
}

TEST(deadline_and_cancellation_of_the_owner_are_thrown)
{
    run_both([] {
        scope late;
        late.spawn(wait_forever);
        MUST(error_of([&] { late.wait(1ms); }) == std::errc::timed_out);
        std::atomic<bool> is_canceled{false};
        {
            gossamer::task owner([&] {
                scope all;
                all.spawn(wait_forever);
                is_canceled = is_canceled_in([&] { all.wait(); });
            });
            gossamer::this_thread::yield();
            owner.cancel();
            owner.join();
        }
        MUST(is_canceled);
        scope quiet;
        quiet.spawn(wait_forever);
        quiet.cancel();
        quiet.wait();
    });
}

TEST(what_was_passed_to_a_member_is_destroyed_before_the_wait_returns)
{
    run_both([] {
        scope all;
        all.spawn([](const counted &) {}, counted(1));
        all.spawn([](const counted &) { gossamer::exit_thread(); }, counted(2));
        all.spawn([](const counted &) { gs_thread_exit(nullptr); }, counted(3));
        all.spawn(
            [](const counted &) {
                gossamer::this_thread::yield();
                throw std::logic_error("last");
            },
            counted(4));
        MUST(thrown_by([&] { all.wait(); }) == "last");
        MUST(counted::live == 0);
        MUST(is_canceled_in([&] { all.spawn([](const counted &) {}, counted(5)); }));
        MUST(counted::live == 0);
    });
}

TEST(exceptions_that_a_member_was_handling_end_with_it)
{
    run_both([] {
        scope all;
        all.spawn([] {
            try {
                throw counted(1);
            } catch (...) {
                gs_thread_exit(nullptr);
            }
        });
        all.wait();
        MUST(counted::live == 0);
        std::atomic<bool> is_clean{true};
        scope next;
        for (int i = 0; i < 8; i++)
            next.spawn([&] {
                if (std::current_exception())
                    is_clean = false;
            });
        next.wait();
        MUST(is_clean);
    });
}
