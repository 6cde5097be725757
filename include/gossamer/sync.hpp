/* Synchronization of user threads in C++: what the standard library has for kernel threads.
 *
 *     gossamer::mutex mutex;
 *     gossamer::condition_variable changed;
 *     std::unique_lock lock(mutex);
 *     changed.wait(lock, [&] { return ready; });
 *
 * The locks work with std::lock_guard, std::unique_lock, std::scoped_lock and std::shared_lock.
 * Where the standard has try_..._for and try_..._until, both take a gossamer::deadline, so either a
 * duration or a time of steady_clock. Objects are used by user threads only, and an object may be
 * destroyed when sync.h allows it to be freed: once no thread is using it.
 *
 * Locking is not interrupted by cancellation; all other waits are, and throw gossamer::canceled. A
 * wait on a condition variable owns the lock when it throws. The waits on condition variables have
 * a second form whose last argument is a std::error_code, which gets
 * std::errc::operation_canceled instead.
 */
#ifndef GOSSAMER_SYNC_HPP
#define GOSSAMER_SYNC_HPP

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <gossamer/sync.h>
#include <gossamer/thread.hpp>
#include <mutex>
#include <shared_mutex>

namespace gossamer
{

namespace detail
{

/* Whether a wait has succeeded before its deadline. */
inline bool in_time(int result)
{
    if (result && result != -ETIMEDOUT)
        fail(-result);
    return !result;
}

} // namespace detail

/* ---- Locks ---- */

class mutex
{
  public:
    constexpr mutex() noexcept = default;
    mutex(const mutex &) = delete;
    mutex &operator=(const mutex &) = delete;

    /* Throws std::errc::resource_deadlock_would_occur if the caller owns the mutex. */
    void lock()
    {
        if (gs_mutex_lock(&native_, 0))
            call(gs_mutex_lock, &native_, GS_NEVER);
    }

    bool try_lock() noexcept
    {
        return !gs_mutex_lock(&native_, 0);
    }

    bool try_lock_until(deadline limit)
    {
        return try_lock() || detail::in_time(detail::wait(gs_mutex_lock, &native_, limit.ns()));
    }

    bool try_lock_for(deadline limit)
    {
        return try_lock_until(limit);
    }

    void unlock() noexcept
    {
        gs_mutex_unlock(&native_);
    }

    gs_mutex *native_handle() noexcept
    {
        return &native_;
    }

  private:
    gs_mutex native_{};
};

/* Neither readers nor writers are starved. */
class shared_mutex
{
  public:
    constexpr shared_mutex() noexcept = default;
    shared_mutex(const shared_mutex &) = delete;
    shared_mutex &operator=(const shared_mutex &) = delete;

    void lock()
    {
        acquire(gs_rwlock_wrlock, deadline::never());
    }

    bool try_lock()
    {
        return acquire(gs_rwlock_wrlock, deadline::now());
    }

    bool try_lock_until(deadline limit)
    {
        return acquire(gs_rwlock_wrlock, limit);
    }

    bool try_lock_for(deadline limit)
    {
        return try_lock_until(limit);
    }

    void unlock() noexcept
    {
        gs_rwlock_unlock(&native_);
    }

    void lock_shared()
    {
        acquire(gs_rwlock_rdlock, deadline::never());
    }

    bool try_lock_shared()
    {
        return acquire(gs_rwlock_rdlock, deadline::now());
    }

    bool try_lock_shared_until(deadline limit)
    {
        return acquire(gs_rwlock_rdlock, limit);
    }

    bool try_lock_shared_for(deadline limit)
    {
        return try_lock_shared_until(limit);
    }

    void unlock_shared() noexcept
    {
        gs_rwlock_unlock(&native_);
    }

    gs_rwlock *native_handle() noexcept
    {
        return &native_;
    }

  private:
    bool acquire(int (*wait)(gs_rwlock *, std::uint64_t), deadline limit)
    {
        const cancellation_disabled disabled;
        return detail::in_time(detail::wait(wait, &native_, limit.ns()));
    }

    gs_rwlock native_{};
};

/* There are no spurious wake-ups, but another thread may have changed the state meanwhile. */
class condition_variable
{
  public:
    constexpr condition_variable() noexcept = default;
    condition_variable(const condition_variable &) = delete;
    condition_variable &operator=(const condition_variable &) = delete;

    void notify_one() noexcept
    {
        gs_cond_signal(&native_);
    }

    void notify_all() noexcept
    {
        gs_cond_broadcast(&native_);
    }

    void wait(std::unique_lock<mutex> &lock)
    {
        wait_until(lock, deadline::never());
    }

    template <class P> void wait(std::unique_lock<mutex> &lock, P is_done)
    {
        while (!is_done())
            wait(lock);
    }

    void wait(std::unique_lock<mutex> &lock, std::error_code &ec) noexcept
    {
        wait_until(lock, deadline::never(), ec);
    }

    template <class P> void wait(std::unique_lock<mutex> &lock, P is_done, std::error_code &ec)
    {
        wait_until(lock, deadline::never(), std::move(is_done), ec);
    }

    std::cv_status wait_until(std::unique_lock<mutex> &lock, deadline limit)
    {
        gs_mutex *mutex = lock.mutex()->native_handle();
        const bool is_woken =
            detail::in_time(detail::wait(gs_cond_wait, &native_, mutex, limit.ns()));
        return is_woken ? std::cv_status::no_timeout : std::cv_status::timeout;
    }

    /* A deadline that passes is no error. */
    std::cv_status wait_until(std::unique_lock<mutex> &lock, deadline limit,
                              std::error_code &ec) noexcept
    {
        gs_mutex *mutex = lock.mutex()->native_handle();
        const int result = call(ec, gs_cond_wait, &native_, mutex, limit.ns());
        if (result != -ETIMEDOUT)
            return std::cv_status::no_timeout;
        ec.clear();
        return std::cv_status::timeout;
    }

    /* Returns what is_done returned last. */
    template <class P> bool wait_until(std::unique_lock<mutex> &lock, deadline limit, P is_done)
    {
        while (!is_done())
            if (wait_until(lock, limit) == std::cv_status::timeout)
                return is_done();
        return true;
    }

    template <class P>
    bool wait_until(std::unique_lock<mutex> &lock, deadline limit, P is_done, std::error_code &ec)
    {
        ec.clear();
        while (!is_done())
            if (wait_until(lock, limit, ec) == std::cv_status::timeout || ec)
                return is_done();
        return true;
    }

    std::cv_status wait_for(std::unique_lock<mutex> &lock, deadline limit)
    {
        return wait_until(lock, limit);
    }

    std::cv_status wait_for(std::unique_lock<mutex> &lock, deadline limit,
                            std::error_code &ec) noexcept
    {
        return wait_until(lock, limit, ec);
    }

    template <class P> bool wait_for(std::unique_lock<mutex> &lock, deadline limit, P is_done)
    {
        return wait_until(lock, limit, std::move(is_done));
    }

    template <class P>
    bool wait_for(std::unique_lock<mutex> &lock, deadline limit, P is_done, std::error_code &ec)
    {
        return wait_until(lock, limit, std::move(is_done), ec);
    }

    gs_cond *native_handle() noexcept
    {
        return &native_;
    }

  private:
    gs_cond native_{};
};

/* ---- Once ---- */

class once_flag
{
  public:
    constexpr once_flag() noexcept = default;
    once_flag(const once_flag &) = delete;
    once_flag &operator=(const once_flag &) = delete;

  private:
    template <class F, class... A> friend void call_once(once_flag &flag, F &&fn, A &&...arguments);

    mutex mutex_;
    std::atomic<bool> is_done_{false};
};

/* The first caller calls fn, and others wait until it has returned, without being interrupted by
 * cancellation. If it throws, so does this, and the next caller calls its fn. */
template <class F, class... A> void call_once(once_flag &flag, F &&fn, A &&...arguments)
{
    if (flag.is_done_.load(std::memory_order_acquire))
        return;
    const std::lock_guard<mutex> lock(flag.mutex_);
    if (flag.is_done_.load(std::memory_order_relaxed))
        return;
    std::invoke(std::forward<F>(fn), std::forward<A>(arguments)...);
    flag.is_done_.store(true, std::memory_order_release);
}

/* ---- Counters ---- */

class semaphore
{
  public:
    constexpr explicit semaphore(std::uint64_t count) noexcept
    {
        native_.count = count;
    }
    semaphore(const semaphore &) = delete;
    semaphore &operator=(const semaphore &) = delete;

    void acquire()
    {
        call(gs_semaphore_wait, &native_, GS_NEVER);
    }

    bool try_acquire() noexcept
    {
        return !gs_semaphore_wait(&native_, 0);
    }

    bool try_acquire_until(deadline limit)
    {
        return detail::in_time(detail::wait(gs_semaphore_wait, &native_, limit.ns()));
    }

    bool try_acquire_for(deadline limit)
    {
        return try_acquire_until(limit);
    }

    void release(std::uint64_t count = 1) noexcept
    {
        for (; count; count--)
            gs_semaphore_post(&native_);
    }

    gs_semaphore *native_handle() noexcept
    {
        return &native_;
    }

  private:
    gs_semaphore native_{};
};

class barrier
{
  public:
    constexpr explicit barrier(unsigned threads) noexcept
    {
        native_.threads = threads;
    }
    barrier(const barrier &) = delete;
    barrier &operator=(const barrier &) = delete;

    /* Wait until all threads have arrived. Returns true in the last one. A caller that it throws to
     * is not counted. */
    bool arrive_and_wait(deadline limit = deadline::never())
    {
        return call(gs_barrier_wait, &native_, limit.ns());
    }

    gs_barrier *native_handle() noexcept
    {
        return &native_;
    }

  private:
    gs_barrier native_{};
};

/* Waits until all tasks that were added are done. */
class wait_group
{
  public:
    constexpr wait_group() noexcept = default;
    wait_group(const wait_group &) = delete;
    wait_group &operator=(const wait_group &) = delete;

    void add(std::uint64_t count = 1) noexcept
    {
        gs_wait_group_add(&native_, count);
    }

    void done() noexcept
    {
        gs_wait_group_done(&native_);
    }

    void wait(deadline limit = deadline::never())
    {
        call(gs_wait_group_wait, &native_, limit.ns());
    }

    gs_wait_group *native_handle() noexcept
    {
        return &native_;
    }

  private:
    gs_wait_group native_{};
};

} // namespace gossamer

#endif
