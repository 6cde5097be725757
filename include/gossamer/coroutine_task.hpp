/* Functions that may wait, and what all of their waits share. Part of gossamer/coroutine.hpp.
 *
 *     gossamer::async::task<int> answer()
 *     {
 *         co_await gossamer::async::sleep(1s);
 *         co_return 42;
 *     }
 */
#ifndef GOSSAMER_COROUTINE_TASK_HPP
#define GOSSAMER_COROUTINE_TASK_HPP

#if __cplusplus < 202002L
#error "gossamer/coroutine.hpp needs C++20"
#endif

#include <coroutine>
#include <cstddef>
#include <exception>
#include <gossamer/io.hpp>
#include <gossamer/loop.h>
#include <optional>
#include <utility>
#include <variant>

namespace gossamer::async
{

class loop;
class spawned;
template <class T> class task;

namespace detail
{

struct chain;

/* ---- Waits ---- */

/* What a chain waits for. It is in the frame of the coroutine that awaits it. */
class wait
{
  public:
    /* Request the end of the wait. Returns true if it has been stopped, and false if a callback
     * will end it. May be called again. */
    virtual bool interrupt() noexcept = 0;

    /* An operation is done; the argument is its result. Returns whether another one has started. */
    virtual bool goes_on(std::int64_t &) noexcept
    {
        return false;
    }

    chain *of = nullptr;
    std::int64_t result = 0;

  protected:
    ~wait() = default;
};

/* Coroutines that await each other, of which the innermost one may wait. All of their waits share
 * one operation and one timer, so that frames are small. A timer is not stopped when a wait ends in
 * time: the next wait usually moves it to a later deadline, which costs one store. */
struct chain {
    explicit chain(loop &owner_) noexcept;
    chain(const chain &) = delete;
    chain &operator=(const chain &) = delete;
    ~chain();

    /* Returns 0, or the error with which the wait fails at once. has_timer: the wait is ended by
     * the timer, also if it is interrupted. */
    int begin(std::coroutine_handle<> handle, wait &by, deadline limit, bool has_timer) noexcept
    {
        if (is_canceled)
            return -ECANCELED;
        deadline_ns = limit.ns();
        if (has_timer)
            gs_watcher_ref(&timer.watcher);
        const bool is_limited = has_timer || deadline_ns != GS_NEVER;
        if (const int err = is_limited ? gs_timer_start(&timer, deadline_ns) : 0) {
            gs_watcher_unref(&timer.watcher);
            return err;
        }
        waiting = handle;
        current = &by;
        error = 0;
        return 0;
    }

    /* The wait is over. Returns the coroutine that continues. */
    std::coroutine_handle<> end() noexcept
    {
        current = nullptr;
        gs_watcher_unref(&timer.watcher);
        return std::exchange(waiting, nullptr);
    }

    void resume(std::int64_t result) noexcept
    {
        current->result = result;
        end().resume(); /* the chain may have ended */
    }

    void cancel() noexcept
    {
        is_canceled = true;
        if (!current || error)
            return;
        error = -ECANCELED;
        if (current->interrupt())
            static_cast<void>(gs_timer_start(&timer, 0)); /* it is active, so it is only moved */
    }

    static void on_timer(gs_timer *expired) noexcept
    {
        auto *self = static_cast<chain *>(expired->watcher.data);
        const bool is_left = !self->error && self->deadline_ns == GS_NEVER;
        if (!self->current || is_left)
            return;
        if (!self->error)
            self->error = -ETIMEDOUT;
        if (self->current->interrupt())
            self->resume(self->error);
    }

    /* An operation that nobody has interrupted is canceled if its descriptor is closed. */
    static void on_op(gs_op *done, std::int64_t result) noexcept
    {
        auto *self = static_cast<chain *>(done->io.watcher.data);
        if (result == -ECANCELED)
            result = self->error ? self->error : -EBADF;
        if (!self->current->goes_on(result))
            self->resume(result);
    }

    loop &owner;
    gs_op op;
    gs_timer timer;
    std::coroutine_handle<> waiting;
    wait *current = nullptr;
    std::uint64_t deadline_ns = GS_NEVER;
    int error = 0; /* with which the present wait is interrupted */
    bool is_canceled = false;
};

/* An awaiter. Derived has start(), which returns 0 or an error; and result_of(). */
template <class Derived, bool has_timer = false> class waiting : public wait
{
  public:
    static constexpr bool await_ready() noexcept
    {
        return false;
    }

    template <class Promise> bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        of = handle.promise().of;
        int err = of->begin(handle, *this, limit_, has_timer);
        if (!err && (err = static_cast<Derived *>(this)->start()))
            of->end();
        result = err;
        return !err;
    }

  protected:
    /* The result, or 0 if the error was stored. */
    std::int64_t checked() const
    {
        if (ec_)
            *ec_ = code_of(result);
        else
            check(result);
        return result > 0 ? result : 0;
    }

  private:
    friend Derived;

    waiting(deadline limit, std::error_code *ec) noexcept : limit_(limit), ec_(ec)
    {
    }

    deadline limit_;
    std::error_code *ec_;
};

/* start(op) starts the operation of the chain. */
template <class Start, class Result> class operation : public waiting<operation<Start, Result>>
{
  public:
    operation(Start start, deadline limit, std::error_code *ec = nullptr) noexcept
        : waiting<operation>(limit, ec), start_(start)
    {
    }

    int start() noexcept;
    bool interrupt() noexcept override;
    Result await_resume() const;

  private:
    Start start_;
};

} // namespace detail

/* ---- Tasks ---- */

namespace detail
{

template <class T> using value_of = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

/* What a coroutine has returned or thrown. */
template <class T> struct outcome {
    std::optional<value_of<T>> value;
    std::exception_ptr error;

    T take()
    {
        if (error)
            std::rethrow_exception(std::exchange(error, nullptr));
        if constexpr (!std::is_void_v<T>)
            return std::move(*value);
    }
};

struct promise_base {
    /* Continue with the coroutine that awaits this one, unless that is still starting it. */
    struct final_awaiter {
        static constexpr bool await_ready() noexcept
        {
            return false;
        }
        template <class Promise>
        static std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> handle) noexcept
        {
            const promise_base &self = handle.promise();
            return self.is_starting ? std::noop_coroutine() : self.awaiting;
        }
        static void await_resume() noexcept
        {
        }
    };

    static std::suspend_always initial_suspend() noexcept
    {
        return {};
    }
    static final_awaiter final_suspend() noexcept
    {
        return {};
    }

    chain *of = nullptr;
    std::coroutine_handle<> awaiting;
    bool is_starting = false;
};

template <class T> struct promise : promise_base {
    outcome<T> result;

    task<T> get_return_object() noexcept;
    template <class Value> void return_value(Value &&value)
    {
        result.value.emplace(std::forward<Value>(value));
    }
    void unhandled_exception() noexcept
    {
        result.error = std::current_exception();
    }
};

template <> struct promise<void> : promise_base {
    outcome<void> result;

    task<void> get_return_object() noexcept;
    static void return_void() noexcept
    {
    }
    void unhandled_exception() noexcept
    {
        result.error = std::current_exception();
    }
};

/* Starts a task. One that does not wait has ended when its start returns, so a loop that awaits
 * such tasks needs no stack for each, also where the compiler makes no tail calls. */
template <class T> struct task_awaiter {
    std::coroutine_handle<promise<T>> started;

    static constexpr bool await_ready() noexcept
    {
        return false;
    }
    template <class Promise> bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        promise<T> &self = started.promise();
        self.of = handle.promise().of;
        self.awaiting = handle;
        self.is_starting = true;
        started.resume();
        self.is_starting = false;
        return !started.done();
    }
    T await_resume()
    {
        return started.promise().result.take();
    }
};

} // namespace detail

/* A function that may wait, and its result, of type T. Move only. It is awaited once. */
template <class T> class [[nodiscard]] task
{
  public:
    using promise_type = detail::promise<T>;

    explicit task(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle)
    {
    }
    task(task &&other) noexcept : handle_(std::exchange(other.handle_, nullptr))
    {
    }
    task &operator=(task &&other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~task()
    {
        if (handle_)
            handle_.destroy();
    }

    detail::task_awaiter<T> operator co_await() const noexcept
    {
        return {handle_};
    }

  private:
    std::coroutine_handle<promise_type> handle_;
};

template <class T> task<T> detail::promise<T>::get_return_object() noexcept
{
    return task<T>(std::coroutine_handle<promise>::from_promise(*this));
}

inline task<void> detail::promise<void>::get_return_object() noexcept
{
    return task<void>(std::coroutine_handle<promise>::from_promise(*this));
}

} // namespace gossamer::async

#endif
