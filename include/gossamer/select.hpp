/* Select in C++: wait for the first of several events.
 *
 *     std::optional<job> next;
 *     switch (gossamer::select(5s, gossamer::receive_case(jobs, next),
 *                              gossamer::ready_case(client, GS_READ))) {
 *     case 0:                         a job, or no value if the channel was closed
 *     case 1:                         the client has sent something
 *     }
 *
 * Cases are made in the call. Exactly one of them is done, and the others remain as they are:
 * sync.h describes each kind.
 */
#ifndef GOSSAMER_SELECT_HPP
#define GOSSAMER_SELECT_HPP

#include <array>
#include <csignal>
#include <gossamer/channel.hpp>
#include <gossamer/io.hpp>
#include <gossamer/sync.h>

namespace gossamer
{

namespace detail
{

/* What gs_select is given; the function hides the name of the struct. */
using select_entry = struct gs_select;

} // namespace detail

/* Receive from a channel: item gets no value if the channel was closed. */
template <class T> class receive_case
{
  public:
    receive_case(channel<T> &from, std::optional<T> &item) noexcept : from_(from), item_(item)
    {
        item_.reset();
    }

    void prepare(detail::select_entry &entry) noexcept
    {
        entry.channel = from_.native_handle();
        entry.receive = &received_;
    }
    int finish(const detail::select_entry &entry)
    {
        if (!entry.result)
            item_.emplace(detail::parcel<T>::open(received_.value));
        return 0;
    }

  private:
    channel<T> &from_;
    std::optional<T> &item_;
    detail::unpacked<T> received_;
};

/* Send to a channel: the item, which may be in one case only, is moved from if it was sent, and
 * otherwise still the caller's. If the channel was closed, select fails with
 * std::errc::broken_pipe. */
template <class T> class send_case
{
  public:
    send_case(channel<T> &to, T &item) noexcept : to_(to), item_(item)
    {
    }
    send_case(const send_case &) = delete;
    send_case &operator=(const send_case &) = delete;
    ~send_case()
    {
        if (is_packed_)
            parcel::not_sent(item_, sent_.value);
    }

    void prepare(detail::select_entry &entry)
    {
        const typename parcel::type &packed = parcel::pack(item_);
        std::memcpy(static_cast<void *>(&sent_), static_cast<const void *>(&packed), sizeof packed);
        is_packed_ = true;
        entry.channel = to_.native_handle();
        entry.send = &sent_;
    }
    int finish(const detail::select_entry &entry) noexcept
    {
        if (!entry.result) {
            is_packed_ = false;
            parcel::sent(item_);
        }
        return entry.result;
    }

  private:
    using parcel = detail::parcel<T>;

    channel<T> &to_;
    T &item_;
    detail::unpacked<T> sent_;
    bool is_packed_ = false;
};

/* A descriptor is ready. events: GS_READ, GS_WRITE, or both. */
class ready_case
{
  public:
    ready_case(const file_descriptor &file, unsigned events) noexcept
        : fd_(file.get()), events_(events)
    {
    }

    void prepare(detail::select_entry &entry) const noexcept
    {
        entry.fd = fd_;
        entry.events = static_cast<std::uint8_t>(events_);
    }
    static int finish(const detail::select_entry &) noexcept
    {
        return 0;
    }

  private:
    int fd_;
    unsigned events_;
};

/* One of several signals, which must be blocked. */
class signal_case
{
  public:
    signal_case(const sigset_t &signals, int &ret_number) noexcept
        : signals_(signals), number_(ret_number)
    {
    }

    void prepare(detail::select_entry &entry) const noexcept
    {
        entry.signals = &signals_;
    }
    int finish(const detail::select_entry &entry) const noexcept
    {
        number_ = entry.result;
        return 0;
    }

  private:
    const sigset_t &signals_;
    int &number_;
};

/* The end of a child process. Without such a child, select fails with
 * std::errc::no_child_process. */
class child_case
{
  public:
    child_case(pid_t child, int &ret_status) noexcept : child_(child), status_(ret_status)
    {
    }

    void prepare(detail::select_entry &entry) const noexcept
    {
        entry.child = child_;
    }
    int finish(const detail::select_entry &entry) const noexcept
    {
        if (entry.result >= 0)
            status_ = entry.result;
        return entry.result < 0 ? entry.result : 0;
    }

  private:
    pid_t child_;
    int &status_;
};

/* The end of a thread, which can then be joined without waiting. */
class thread_case
{
  public:
    template <class T>
    explicit thread_case(const task<T> &task) noexcept : thread_(task.native_handle())
    {
    }

    void prepare(detail::select_entry &entry) const noexcept
    {
        entry.thread = thread_;
    }
    static int finish(const detail::select_entry &) noexcept
    {
        return 0;
    }

  private:
    gs_thread *thread_;
};

namespace detail
{

/* Returns the index of the case, or -errno. ret_error: of the case that was done. */
template <class... Cases> int select_one(deadline limit, int &ret_error, Cases &...cases)
{
    std::array<select_entry, sizeof...(Cases)> entries{};
    std::size_t next = 0;
    (cases.prepare(entries[next++]), ...);
    const int index =
        wait(gs_select, entries.data(), static_cast<unsigned>(entries.size()), limit.ns());
    int i = 0;
    ret_error = index < 0 ? index : 0;
    ((i == index ? void(ret_error = cases.finish(entries[static_cast<std::size_t>(i)])) : void(),
      i++),
     ...);
    return index;
}

} // namespace detail

/* Wait until one of the cases is possible, and do it. Returns its index. */
template <class... Cases> std::size_t select(deadline limit, Cases &&...cases)
{
    int error = 0;
    const int index = detail::select_one(limit, error, cases...);
    check(error);
    return static_cast<std::size_t>(index);
}

} // namespace gossamer

#endif
