/* Exceptions of several threads at a time: the C++ runtime keeps them for each kernel thread. */
#include "tests/cpp/fixture.hpp"

#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using gossamer::thread;

namespace
{

int current_number()
{
    try {
        throw;
    } catch (int number) {
        return number;
    }
}

/* Handle several exceptions at a time, and wait meanwhile. */
void handle(int number, int depth)
{
    const std::exception_ptr before = std::current_exception();
    try {
        throw number;
    } catch (int caught) {
        gossamer::this_thread::yield();
        MUST(caught == number && current_number() == number);
        if (depth)
            handle(number + 1, depth - 1);
        gossamer::this_thread::sleep(10us);
        MUST(caught == number && current_number() == number);
    }
    MUST(std::current_exception() == before);
}

/* Waits in its destructor. */
class waiting
{
  public:
    explicit waiting(int exceptions) : exceptions_(exceptions)
    {
    }
    ~waiting()
    {
        MUST(std::uncaught_exceptions() == exceptions_);
        gossamer::this_thread::sleep(20us);
        handle(1000, 1);
        MUST(std::uncaught_exceptions() == exceptions_);
    }
    waiting(const waiting &) = delete;
    waiting &operator=(const waiting &) = delete;

  private:
    int exceptions_;
};

void run_many(bool migrates, void (*fn)())
{
    std::vector<thread> threads;
    gossamer::thread_attributes attributes{};
    attributes.migrates = migrates;
    for (int i = 0; i < 50; i++)
        threads.emplace_back(attributes, fn);
    for (thread &one : threads)
        one.join();
}

void handle_twice()
{
    for (int i = 0; i < 2; i++)
        handle(i * 10, 3);
}

void unwind_and_wait()
{
    for (int i = 0; i < 3; i++) {
        try {
            const waiting outer(1);
            const waiting inner(1);
            throw std::runtime_error("unwinding");
        } catch (const std::runtime_error &error) {
            MUST(std::string(error.what()) == "unwinding");
        }
        const waiting without(0);
        MUST(std::uncaught_exceptions() == 0);
    }
}

} // namespace

TEST(threads_wait_while_they_handle_exceptions)
{
    run_both([] {
        run_many(false, handle_twice);
        run_many(true, handle_twice);
    });
}

TEST(threads_wait_while_they_unwind)
{
    run_both([] {
        run_many(false, unwind_and_wait);
        run_many(true, unwind_and_wait);
    });
}

/* The second thread starts on the worker on which the first one ended. */
TEST(thread_that_exits_while_it_handles_an_exception_leaves_none_to_the_next_thread)
{
    gossamer::run([] {
        thread exiting([] {
            try {
                throw std::runtime_error("never handled");
            } catch (const std::runtime_error &) {
                gs_thread_exit(nullptr);
            }
        });
        thread next([] {
            MUST(!std::current_exception());
            MUST(std::uncaught_exceptions() == 0);
        });
        exiting.join();
        next.join();
    });
}

TEST(each_wait_keeps_the_exception_that_is_handled)
{
    run_both([] {
        gossamer::mutex mutex;
        gossamer::shared_mutex shared;
        gossamer::condition_variable changed;
        gossamer::semaphore semaphore(0);
        gossamer::channel<int> channel;
        gossamer::wait_group group;
        const auto use_all = [&] {
            std::unique_lock lock(mutex);
            changed.wait_for(lock, 10us);
            gossamer::this_thread::yield();
            lock.unlock();
            const std::lock_guard exclusive(shared);
            semaphore.try_acquire_for(10us);
            std::error_code ec;
            channel.receive(10us, ec);
            error_of([&] { group.wait(10us); });
        };
        group.add();
        std::vector<thread> threads;
        for (int i = 0; i < 20; i++)
            threads.emplace_back([&, i] {
                try {
                    throw i;
                } catch (int) {
                    use_all();
                    MUST(current_number() == i);
                }
            });
        for (thread &one : threads)
            one.join();
        group.done();
    });
}

TEST(the_runtime_may_run_while_an_exception_is_handled)
{
    try {
        throw 5;
    } catch (int) {
        gossamer::run([] {
            MUST(!std::current_exception());
            run_many(false, handle_twice);
        });
        MUST(current_number() == 5);
    }
    CHECK(!std::current_exception());
}

TEST(a_thread_that_is_canceled_while_it_handles_an_exception_unwinds)
{
    run_both([] {
        gossamer::semaphore is_handling(0);
        thread handling([&] {
            try {
                throw 5;
            } catch (int) {
                is_handling.release();
                gossamer::this_thread::sleep(1h);
            }
        });
        is_handling.acquire();
        handling.cancel();
        handling.join();
        MUST(!std::current_exception() && std::uncaught_exceptions() == 0);
    });
}

TEST(an_exception_fits_on_the_smallest_stack)
{
    gossamer::run([] {
        gossamer::thread_attributes attributes{};
        attributes.stack_size = 16384;
        gossamer::task small(attributes, []() -> int {
            handle(1, 0);
            throw std::runtime_error("from a small stack");
        });
        std::string caught;
        try {
            small.join();
        } catch (const std::runtime_error &error) {
            caught = error.what();
        }
        MUST(caught == "from a small stack");
    });
}

TEST(exceptions_that_the_first_thread_was_handling_end_with_it)
{
    std::atomic<bool> is_clean{true};
    gossamer::run([&] {
        gossamer::task([&] {
            if (std::current_exception())
                is_clean = false;
        }).detach(); // which runs when this thread has ended
        try {
            throw counted(1);
        } catch (...) {
            gs_thread_exit(nullptr);
        }
    });
    CHECK(is_clean);
    CHECK_EQ(counted::live, 0);
}
