// Threads of C++: std::thread, jthread, async, exceptions through threads, call_once, thread_local.
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <latch>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace std::chrono_literals;

namespace
{

thread_local std::string local = "fresh";
std::atomic<int> destroyed;

struct guard {
    ~guard()
    {
        destroyed++;
    }
};
thread_local guard local_guard;

int fail(int depth)
{
    const guard here;
    if (!depth)
        throw std::runtime_error("from the depth");
    std::this_thread::yield();
    return fail(depth - 1) + 1;
}

void test_exceptions()
{
    std::vector<std::future<int>> futures;
    for (int i = 0; i < 20; i++)
        futures.push_back(std::async(std::launch::async, fail, i));
    int caught = 0;
    for (auto &future : futures) {
        try {
            future.get();
        } catch (const std::runtime_error &error) {
            caught += std::string(error.what()) == "from the depth";
        }
    }
    std::printf("caught %d, destroyed %d\n", caught, destroyed.load());
    std::promise<void> promise;
    std::thread([&] {
        try {
            fail(3);
        } catch (...) {
            promise.set_exception(std::current_exception());
        }
    }).join();
    try {
        promise.get_future().get();
    } catch (const std::exception &error) {
        std::printf("%s\n", error.what());
    }
}

void test_locals()
{
    destroyed = 0;
    std::vector<std::thread> threads;
    std::atomic<int> fresh = 0;
    for (int i = 0; i < 10; i++)
        threads.emplace_back([&] {
            (void)&local_guard;
            fresh += local == "fresh";
            local = "used";
            std::this_thread::sleep_for(1ms);
            fresh += local == "used";
        });
    for (auto &thread : threads)
        thread.join();
    std::printf("fresh and used %d, here %s, destroyed %d\n", fresh.load(), local.c_str(),
                destroyed.load());
}

void test_objects()
{
    std::latch latch(4);
    std::barrier barrier(4);
    std::counting_semaphore<8> semaphore(0);
    std::shared_mutex shared;
    std::once_flag once;
    std::atomic<int> called = 0, flag = 0;
    long sum = 0;
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&] {
            std::call_once(once, [&] { called++; });
            latch.arrive_and_wait();
            for (int turn = 0; turn < 50; turn++) {
                barrier.arrive_and_wait();
                const std::unique_lock lock(shared);
                sum++;
            }
            semaphore.acquire();
            flag.wait(0);
        });
    semaphore.release(4);
    flag = 1;
    flag.notify_all();
    threads.clear();
    std::printf("called %d, sum %ld\n", called.load(), sum);
}

void test_conditions()
{
    std::timed_mutex timed;
    std::mutex mutex;
    std::condition_variable condition;
    std::condition_variable_any any;
    bool is_ready = false;
    timed.lock();
    std::thread([&] { std::printf("in time %d\n", timed.try_lock_for(5ms)); }).join();
    timed.unlock();
    std::thread waiting([&] {
        std::unique_lock lock(mutex);
        condition.wait(lock, [&] { return is_ready; });
        std::printf("timeout %d\n", condition.wait_for(lock, 2ms) == std::cv_status::timeout);
    });
    {
        // Not after the unlock, when it might end the second wait.
        const std::lock_guard lock(mutex);
        is_ready = true;
        condition.notify_all();
    }
    waiting.join();
    std::jthread stopped([&](const std::stop_token &token) {
        std::unique_lock lock(mutex);
        std::printf("stopped %d\n", any.wait(lock, token, [] { return false; }));
    });
    stopped.request_stop();
    stopped.join();
    auto later = std::async(std::launch::deferred, [] { return 7; });
    std::printf("deferred %d\n", later.get());
}

// A canceled thread unwinds: destructors run, and catch (...) must rethrow.
void *unwind(void *)
{
    const guard here;
    try {
        while (true)
            sleep(1);
    } catch (const std::exception &) {
        std::printf("not reached\n");
    } catch (...) {
        destroyed += 10;
        throw;
    }
    return nullptr;
}

void test_cancellation()
{
    pthread_t thread;
    void *result = nullptr;
    destroyed = 0;
    pthread_create(&thread, nullptr, unwind, nullptr);
    std::this_thread::sleep_for(5ms);
    std::printf("canceled %d", pthread_cancel(thread));
    pthread_join(thread, &result);
    std::printf(" %d, destroyed %d\n", result == PTHREAD_CANCELED, destroyed.load());
}

// ---- Cancellation at any instruction around a system call ----

std::atomic<long> unwound;
std::atomic<bool> has_begun;

struct counted {
    ~counted()
    {
        unwound++;
    }
};

void call_for_ever()
{
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    has_begun = true;
    for (;;) {
        long result = SYS_getppid;
        __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
    }
}

void (*volatile call)() = call_for_ever;

void *be_cancelled(void *argument)
{
    counted object;
    call();
    return argument;
}

void cancel_callers()
{
    for (int i = 0; i < 60; i++) {
        pthread_t thread;
        has_begun = false;
        pthread_create(&thread, nullptr, be_cancelled, nullptr);
        while (!has_begun)
            sched_yield();
        for (volatile int rest = i * 37 % 5000; rest > 0;)
            rest = rest - 1;
        pthread_cancel(thread);
        pthread_join(thread, nullptr);
    }
    std::printf("unwound %ld\n", unwound.load());
}

} // namespace

int main()
{
    test_exceptions();
    test_locals();
    test_objects();
    test_conditions();
    test_cancellation();
    cancel_callers();
    std::fflush(stdout);
    std::set_terminate([] {
        std::printf("terminated\n");
        std::fflush(stdout);
        std::abort();
    });
    std::thread([] { throw 1; }).join();
}
