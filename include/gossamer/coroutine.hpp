/* Coroutines of C++20 on an event loop: one kernel thread, no stacks, and a frame for each function
 * that waits.
 *
 *     gossamer::async::task<void> serve(gossamer::async::descriptor client)
 *     {
 *         char bytes[1024];
 *         while (std::size_t n = co_await client.recv(bytes, sizeof bytes, 60s))
 *             co_await client.send_all(bytes, n, 60s);
 *     }
 *
 *     gossamer::async::loop loop;
 *     loop.spawn(serve(gossamer::async::descriptor(loop, std::move(file))));
 *     loop.run();                                    until all coroutines have ended
 *
 * Tasks: a function that waits returns a task<T>. It starts when it is awaited or spawned, and its
 * result or exception reaches the coroutine that awaits it. Arguments that are references must
 * outlive the task. A task that completes without waiting uses the stack of its caller.
 *
 * Errors and deadlines are those of io.hpp: a wait throws std::system_error, or stores the error if
 * its last argument is a std::error_code. Exceptions that leave a spawned task are lost.
 *
 * Cancellation: a wait of a canceled coroutine throws gossamer::canceled, and so does each further
 * one. It reaches all coroutines that await each other, and the members of when_all.
 *
 * Ending: when a loop is destroyed, the coroutines that still wait are destroyed without being
 * resumed: what is in their frames is destroyed, and descriptors are closed. To let them unwind
 * instead, cancel them and run the loop until it returns.
 *
 * Threads: everything here belongs to the kernel thread of its loop, except for the functions that
 * run_blocking calls. User threads wait by the functions of io.hpp instead. This header is not part
 * of gossamer.hpp.
 */
#ifndef GOSSAMER_COROUTINE_HPP
#define GOSSAMER_COROUTINE_HPP

#if __cplusplus < 202002L
#error "gossamer/coroutine.hpp needs C++20"
#endif

#include <cstring>
#include <gossamer/coroutine_task.hpp>

namespace gossamer::async
{

/* ---- Loops ---- */

namespace detail
{

/* The outermost coroutine of a spawned task. Its frame is destroyed when it ends, or with the
 * loop. */
struct root {
    /* The base is its link in the loop's list. */
    struct promise_type : gs_list {
        template <class... A>
        explicit promise_type(loop &owner, A &...) noexcept : gs_list(), self(owner), of(&self)
        {
        }
        promise_type(const promise_type &) = delete;
        promise_type &operator=(const promise_type &) = delete;
        ~promise_type();

        root get_return_object() noexcept
        {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        static std::suspend_always initial_suspend() noexcept
        {
            return {};
        }
        static std::suspend_never final_suspend() noexcept
        {
            return {};
        }
        static void return_void() noexcept
        {
        }
        static void unhandled_exception() noexcept
        {
            std::terminate(); /* see run_root */
        }

        chain self;
        chain *of;
        spawned *handle = nullptr;
    };

    std::coroutine_handle<promise_type> handle;
};

template <class T> root run_root(loop &, task<T> body, outcome<T> *ret_outcome)
{
    try {
        if constexpr (std::is_void_v<T>)
            co_await body;
        else if (ret_outcome)
            ret_outcome->value.emplace(co_await body);
        else
            static_cast<void>(co_await body);
    } catch (...) {
        if (ret_outcome)
            ret_outcome->error = std::current_exception();
    }
}

} // namespace detail

/* A spawned task, to cancel it. Move only. Destroying it leaves the task to itself. */
class spawned
{
  public:
    spawned() noexcept = default;
    spawned(spawned &&other) noexcept : root_(std::exchange(other.root_, nullptr))
    {
        refer();
    }
    spawned &operator=(spawned &&other) noexcept
    {
        spawned taken(std::move(other));
        std::swap(root_, taken.root_);
        taken.refer();
        refer();
        return *this;
    }
    ~spawned()
    {
        if (root_)
            root_->handle = nullptr;
    }

    bool is_running() const noexcept
    {
        return root_;
    }

    void cancel() const noexcept
    {
        if (root_)
            root_->self.cancel();
    }

  private:
    friend class loop;
    friend detail::root::promise_type;

    explicit spawned(detail::root::promise_type *root) noexcept : root_(root)
    {
        refer();
    }

    void refer() noexcept
    {
        if (root_)
            root_->handle = this;
    }

    detail::root::promise_type *root_ = nullptr;
};

/* Owns an event loop and the tasks that were spawned on it. */
class loop
{
  public:
    loop()
    {
        if (const int err = gs_loop_new(&native_))
            throw std::system_error(-err, std::system_category());
        submits_ = !std::strcmp(gs_loop_poller(native_), "io_uring");
        gs_list_init(&roots_);
    }
    loop(const loop &) = delete;
    loop &operator=(const loop &) = delete;

    /* Destroy the tasks that have not ended. The kernel uses none of their memory by then. */
    ~loop()
    {
        gs_loop_free(std::exchange(native_, nullptr));
        while (!gs_list_is_empty(&roots_))
            handle_of(gs_list_first(&roots_)).destroy();
    }

    /* Start a task, which runs until it waits. */
    template <class T> spawned spawn(task<T> body)
    {
        return start(detail::run_root<T>(*this, std::move(body), nullptr));
    }

    /* Run until all tasks have ended. */
    void run()
    {
        if (const int err = gs_loop_run(native_))
            throw std::system_error(-err, std::system_category());
    }

    /* Start the task, run until all have ended, and return what it has returned, or throw what it
     * has thrown. That it was canceled is no error if T is void. */
    template <class T> T run(task<T> body)
    {
        detail::outcome<T> result;
        start(detail::run_root<T>(*this, std::move(body), &result));
        run();
        if constexpr (std::is_void_v<T>) {
            try {
                result.take();
            } catch (const canceled &) {
                return; // there is no result that could be missing
            }
        } else {
            return result.take();
        }
    }

    /* Cancel all tasks. They end when the loop runs. */
    void cancel() noexcept
    {
        GS_LIST_FOREACH (link, &roots_)
            handle_of(link).promise().self.cancel();
    }

    /* For the C interface. It has ended if this is nullptr. */
    gs_loop *native_handle() const noexcept
    {
        return native_;
    }

    /* Whether the kernel executes operations, so that none is tried first. */
    bool submits() const noexcept
    {
        return submits_;
    }

  private:
    using root_promise = detail::root::promise_type;

    static std::coroutine_handle<root_promise> handle_of(gs_list *link) noexcept
    {
        return std::coroutine_handle<root_promise>::from_promise(
            *static_cast<root_promise *>(link));
    }

    spawned start(detail::root started)
    {
        root_promise &promise = started.handle.promise();
        gs_list_append(&roots_, &promise);
        spawned result(&promise);
        started.handle.resume();
        return result;
    }

    gs_loop *native_ = nullptr;
    gs_list roots_{};
    bool submits_ = false;
};

namespace detail
{

inline chain::chain(loop &owner_) noexcept : owner(owner_)
{
    gs_op_init(&op, owner.native_handle(), on_op);
    gs_timer_init(&timer, owner.native_handle(), on_timer);
    gs_watcher_unref(&timer.watcher);
    op.io.watcher.data = timer.watcher.data = this;
}

inline chain::~chain()
{
    if (owner.native_handle())
        gs_timer_stop(&timer);
}

inline root::promise_type::~promise_type()
{
    gs_list_remove(this);
    if (handle)
        handle->root_ = nullptr;
}

template <class Start, class Result> int operation<Start, Result>::start() noexcept
{
    return start_(this->of->op);
}

template <class Start, class Result> bool operation<Start, Result>::interrupt() noexcept
{
    gs_op_cancel(&this->of->op);
    return false;
}

template <class Start, class Result> Result operation<Start, Result>::await_resume() const
{
    const std::int64_t value = this->checked();
    if constexpr (std::is_same_v<Result, std::size_t>)
        return static_cast<std::size_t>(value);
    else if constexpr (!std::is_void_v<Result>)
        return Result(this->of->owner,
                      file_descriptor(this->result < 0 ? -1 : static_cast<int>(value)));
}

} // namespace detail

} // namespace gossamer::async

#include <gossamer/coroutine_group.hpp>
#include <gossamer/coroutine_wait.hpp>

#endif
