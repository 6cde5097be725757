#include "tests/cpp/fixture.hpp"

#include <array>
#include <stdexcept>
#include <vector>

using namespace std::chrono_literals;
using gossamer::deadline;
using gossamer::mutex;
using gossamer::shared_mutex;
using gossamer::thread;

namespace
{

constexpr int threads = 12, turns = 50;

template <class F> void run_threads(F fn)
{
    std::vector<thread> all;
    gossamer::thread_attributes attributes{};
    for (int i = 0; i < threads; i++) {
        attributes.migrates = i % 2;
        all.emplace_back(attributes, fn);
    }
    for (thread &one : all)
        one.join();
}

/* Whether another thread gets the lock with a try. */
template <class F> bool succeeds_elsewhere(F fn)
{
    return gossamer::task(fn).join();
}

} // namespace

TEST(a_mutex_works_with_the_guards_of_the_standard_library)
{
    run_both([] {
        mutex one, other;
        int value = 0;
        run_threads([&] {
            for (int i = 0; i < turns; i++) {
                const std::lock_guard lock(one);
                const int before = value;
                gossamer::this_thread::yield();
                value = before + 1;
            }
            const std::scoped_lock both(one, other);
            const int before = value;
            gossamer::this_thread::yield();
            value = before + 1;
        });
        MUST(value == threads * (turns + 1));
        std::unique_lock lock(one);
        MUST(gs_mutex_is_owned(one.native_handle()));
        lock.unlock();
        MUST(!gs_mutex_is_owned(one.native_handle()));
    });
}

TEST(an_exception_releases_the_lock)
{
    run_both([] {
        mutex one;
        try {
            const std::lock_guard lock(one);
            throw std::runtime_error("while locked");
        } catch (const std::runtime_error &) {
            MUST(one.try_lock());
            one.unlock();
        }
    });
}

TEST(a_mutex_is_locked_until_a_deadline)
{
    run_both([] {
        mutex one;
        std::unique_lock lock(one);
        MUST(succeeds_elsewhere([&] {
            return !one.try_lock() && !one.try_lock_for(1ms) &&
                   !one.try_lock_until(deadline::now());
        }));
        MUST(succeeds_elsewhere([&] {
            const std::unique_lock late(one, 1ms);
            const std::unique_lock later(one, std::chrono::steady_clock::now() + 1ms);
            return !late.owns_lock() && !later.owns_lock();
        }));
        gossamer::task waiting([&] {
            const std::unique_lock in_time(one, 1h);
            return in_time.owns_lock();
        });
        gossamer::this_thread::sleep(1ms);
        lock.unlock();
        MUST(waiting.join());
    });
}

TEST(a_mutex_that_the_caller_owns_is_a_deadlock)
{
    run_both([] {
        mutex one;
        const std::lock_guard lock(one);
        MUST(error_of([&] { one.lock(); }) == std::errc::resource_deadlock_would_occur);
        MUST(!one.try_lock());
    });
}

TEST(a_shared_mutex_has_many_readers_or_one_writer)
{
    run_both([] {
        shared_mutex one;
        std::array<int, 2> values{};
        run_threads([&] {
            for (int i = 0; i < turns; i++) {
                if (i % 5) {
                    const std::shared_lock lock(one);
                    gossamer::this_thread::yield();
                    MUST(values[0] == values[1]);
                    continue;
                }
                const std::unique_lock lock(one);
                values[0]++;
                gossamer::this_thread::yield();
                values[1]++;
            }
        });
        MUST(values[0] == threads * turns / 5);

        std::shared_lock reading(one);
        MUST(succeeds_elsewhere([&] {
            const std::shared_lock lock(one, 1ms);
            return lock.owns_lock();
        }));
        MUST(succeeds_elsewhere([&] { return !one.try_lock() && !one.try_lock_for(1ms); }));
        reading.unlock();
        const std::lock_guard writing(one);
        MUST(succeeds_elsewhere(
            [&] { return !one.try_lock_shared() && !one.try_lock_shared_for(1ms); }));
    });
}

TEST(cancellation_does_not_interrupt_locking)
{
    run_both([] {
        mutex one;
        shared_mutex other;
        one.lock();
        other.lock();
        thread locking([&] {
            const std::lock_guard first(one);
            const std::shared_lock second(other);
            MUST(gossamer::this_thread::is_canceled());
            MUST(is_canceled_in([] { gossamer::this_thread::sleep(1h); }));
        });
        gossamer::this_thread::sleep(1ms);
        locking.cancel();
        gossamer::this_thread::sleep(1ms);
        one.unlock();
        gossamer::this_thread::sleep(1ms);
        other.unlock();
        locking.join();
        MUST(one.try_lock() && other.try_lock());
        one.unlock();
        other.unlock();
    });
}

TEST(a_condition_variable_passes_turns)
{
    run_both([] {
        mutex one;
        gossamer::condition_variable changed;
        int next = 0;
        std::vector<thread> all;
        for (int i = 0; i < threads; i++)
            all.emplace_back([&, i] {
                for (int turn = 0; turn < turns; turn++) {
                    std::unique_lock lock(one);
                    changed.wait(lock, [&] { return next % threads == i; });
                    next++;
                    changed.notify_all();
                }
            });
        for (thread &each : all)
            each.join();
        MUST(next == threads * turns);
    });
}

TEST(a_condition_variable_has_deadlines)
{
    run_both([] {
        mutex one;
        gossamer::condition_variable changed;
        std::unique_lock lock(one);
        MUST(changed.wait_for(lock, 1ms) == std::cv_status::timeout);
        MUST(changed.wait_until(lock, std::chrono::steady_clock::now()) == std::cv_status::timeout);
        MUST(!changed.wait_for(lock, 1ms, [] { return false; }));
        MUST(changed.wait_for(lock, deadline::now(), [] { return true; }));
        MUST(lock.owns_lock() && gs_mutex_is_owned(one.native_handle()));
        thread waker([&] {
            const std::lock_guard here(one);
            changed.notify_one();
        });
        MUST(changed.wait_for(lock, 1h) == std::cv_status::no_timeout);
        lock.unlock();
        waker.join();
    });
}

TEST(a_canceled_wait_on_a_condition_variable_releases_the_lock_as_it_unwinds)
{
    run_both([] {
        mutex one;
        gossamer::condition_variable changed;
        gossamer::semaphore is_locked(0);
        thread waiting([&] {
            std::unique_lock lock(one);
            is_locked.release();
            try {
                changed.wait(lock, [] { return false; });
            } catch (const gossamer::canceled &) {
                MUST(gs_mutex_is_owned(one.native_handle()));
                throw;
            }
        });
        is_locked.acquire();
        waiting.cancel();
        waiting.join();
        MUST(one.try_lock());
        one.unlock();
    });
}

TEST(a_condition_variable_stores_errors)
{
    run_both([] {
        mutex one;
        gossamer::condition_variable changed;
        gossamer::semaphore is_locked(0);
        std::error_code ec = std::make_error_code(std::errc::io_error);
        bool is_done = false;
        {
            std::unique_lock lock(one);
            MUST(changed.wait_for(lock, 1ms, ec) == std::cv_status::timeout && !ec);
            MUST(!changed.wait_until(lock, 1ms, [] { return false; }, ec) && !ec);
            thread waker([&] {
                const std::lock_guard here(one);
                is_done = true;
                changed.notify_one();
            });
            changed.wait(lock, [&] { return is_done; }, ec);
            MUST(!ec && is_done && lock.owns_lock());
            lock.unlock();
            waker.join();
        }
        thread waiting([&] {
            std::unique_lock lock(one);
            is_locked.release();
            changed.wait(lock, ec);
            MUST(ec == std::errc::operation_canceled);
            MUST(gs_mutex_is_owned(one.native_handle()));
            MUST(!changed.wait_for(lock, 1h, [] { return false; }, ec));
            MUST(ec == std::errc::operation_canceled);
        });
        is_locked.acquire();
        one.lock();
        one.unlock();
        waiting.cancel();
        waiting.join();
    });
}

TEST(once_is_called_by_the_first_thread_for_which_it_succeeds)
{
    run_both([] {
        gossamer::once_flag flag;
        int calls = 0, failures = 0;
        run_threads([&] {
            try {
                gossamer::call_once(
                    flag,
                    [](int &count) {
                        gossamer::this_thread::yield();
                        if (++count == 1)
                            throw std::runtime_error("the first time");
                    },
                    calls);
                MUST(calls == 2);
            } catch (const std::runtime_error &) {
                failures++;
            }
        });
        MUST(calls == 2 && failures == 1);
    });
}

TEST(a_semaphore_limits_how_many_have_it)
{
    run_both([] {
        gossamer::semaphore slots(3);
        std::atomic<int> inside{0};
        run_threads([&] {
            for (int i = 0; i < turns; i++) {
                slots.acquire();
                MUST(++inside <= 3);
                gossamer::this_thread::yield();
                inside--;
                slots.release();
            }
        });
        MUST(slots.try_acquire() && slots.try_acquire_for(1ms) && slots.try_acquire_until(1ms));
        MUST(!slots.try_acquire() && !slots.try_acquire_for(1ms));
        slots.release(2);
        MUST(slots.try_acquire() && slots.try_acquire() && !slots.try_acquire());
    });
}

TEST(a_barrier_is_passed_together)
{
    run_both([] {
        gossamer::barrier meeting(threads);
        std::atomic<int> last{0}, arrived{0};
        run_threads([&] {
            for (int i = 1; i <= turns; i++) {
                arrived++;
                last += meeting.arrive_and_wait();
                MUST(arrived >= i * threads);
            }
        });
        MUST(last == turns);
        MUST(error_of([&] { meeting.arrive_and_wait(1ms); }) == std::errc::timed_out);
    });
}

TEST(a_wait_group_waits_for_all_that_was_added)
{
    run_both([] {
        gossamer::wait_group group;
        std::atomic<int> ended{0};
        group.add(threads);
        MUST(error_of([&] { group.wait(1ms); }) == std::errc::timed_out);
        for (int i = 0; i < threads; i++)
            thread([&] {
                gossamer::this_thread::yield();
                ended++;
                group.done();
            }).detach();
        group.wait();
        MUST(ended == threads);
    });
}

TEST(a_canceled_thread_waits_for_no_object)
{
    run_both([] {
        gossamer::semaphore semaphore(0);
        gossamer::barrier barrier(2);
        gossamer::wait_group group;
        group.add();
        thread waiting([&] {
            MUST(is_canceled_in([&] { semaphore.acquire(); }));
            MUST(is_canceled_in([&] { semaphore.try_acquire_for(1h); }));
            MUST(!semaphore.try_acquire());
            MUST(is_canceled_in([&] { barrier.arrive_and_wait(); }));
            MUST(is_canceled_in([&] { group.wait(); }));
        });
        gossamer::this_thread::sleep(1ms);
        waiting.cancel();
        waiting.join();
    });
}
