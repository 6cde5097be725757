/* Channels of user threads in C++: queues of items of any movable type.
 *
 *     gossamer::channel<std::string> lines(16);
 *     lines.send("first");
 *     while (std::optional<std::string> line = lines.receive())
 *         handle(*line);
 */
#ifndef GOSSAMER_CHANNEL_HPP
#define GOSSAMER_CHANNEL_HPP

#include <cstddef>
#include <cstring>
#include <gossamer/sync.h>
#include <gossamer/thread.hpp>
#include <memory>
#include <optional>

namespace gossamer
{

namespace detail
{

/* How a channel of the C interface carries a T: as a parcel that may be copied byte by byte, and
 * that owns the item from the time when it was sent until it is opened. */
template <class T, class = void> struct parcel {
    static_assert(std::is_move_constructible_v<T> && std::is_move_assignable_v<T>,
                  "an item of a channel must be movable");
    using type = T *;

    static type pack(T &item)
    {
        return new T(std::move(item));
    }
    static void sent(T &) noexcept
    {
    }
    static void not_sent(T &item, type parcel)
    {
        item = open(parcel);
    }
    static T open(type parcel)
    {
        const std::unique_ptr<T> owner(parcel);
        return std::move(*owner);
    }
};

/* The item itself. */
template <class T> struct parcel<T, std::enable_if_t<std::is_trivially_copyable_v<T>>> {
    using type = T;

    static T &pack(T &item) noexcept
    {
        return item;
    }
    static void sent(T &) noexcept
    {
    }
    static void not_sent(T &, const T &) noexcept
    {
    }
    static T &&open(T &parcel) noexcept
    {
        return std::move(parcel);
    }
};

/* The pointer itself; its deleter has no state. */
template <class T, class D>
struct parcel<std::unique_ptr<T, D>,
              std::enable_if_t<std::is_empty_v<D> && std::is_default_constructible_v<D>>> {
    using pointer = std::unique_ptr<T, D>;
    using type = typename pointer::pointer;
    static_assert(std::is_trivially_copyable_v<type>);

    static type pack(pointer &item) noexcept
    {
        return item.get();
    }
    static void sent(pointer &item) noexcept
    {
        static_cast<void>(item.release());
    }
    static void not_sent(pointer &, type) noexcept
    {
    }
    static pointer open(type parcel) noexcept
    {
        return pointer(parcel);
    }
};

/* A parcel that needs no constructor: its bytes are copied there. */
template <class T> union unpacked {
    unpacked() noexcept
    {
    }
    typename parcel<T>::type value;
};

} // namespace detail

/* A queue of items, passed from thread to thread. Items that can be copied byte by byte are, a
 * std::unique_ptr is passed as its pointer, and everything else is moved to the heap for the
 * passage. Items that nobody has received are destroyed with the channel. It may also be created
 * and destroyed while no user threads run. */
template <class T> class channel
{
  public:
    /* capacity: how many items are buffered; 0: each send waits for its receiver. */
    explicit channel(std::size_t capacity = 0)
    {
        check(gs_channel_new(sizeof(packed), capacity, &native_));
    }
    channel(const channel &) = delete;
    channel &operator=(const channel &) = delete;
    ~channel()
    {
        if constexpr (!std::is_same_v<packed, T>)
            gs_channel_drain(native_, destroy, nullptr);
        gs_channel_free(native_);
    }

    /* Throws std::errc::broken_pipe if the channel was closed. An item that is not sent is still
     * the caller's, as it was. */
    void send(T &&item, deadline limit = deadline::never())
    {
        if (const int result = give(item, limit))
            detail::fail(-result);
    }

    void send(const T &item, deadline limit = deadline::never())
    {
        T copy(item);
        send(std::move(copy), limit);
    }

    void send(T &&item, deadline limit, std::error_code &ec)
    {
        ec.assign(-give(item, limit), std::system_category());
    }

    /* Send if that needs no wait; false otherwise, or if the channel was closed. */
    bool try_send(T &&item)
    {
        return !give(item, deadline::now());
    }

    bool try_send(const T &item)
    {
        T copy(item);
        return try_send(std::move(copy));
    }

    /* Returns an empty optional if the channel was closed and no item is left. */
    std::optional<T> receive(deadline limit = deadline::never())
    {
        std::optional<T> item;
        if (const int result = take(item, limit); result && result != -EPIPE)
            detail::fail(-result);
        return item;
    }

    std::optional<T> receive(deadline limit, std::error_code &ec)
    {
        std::optional<T> item;
        ec.assign(-take(item, limit), std::system_category());
        return item;
    }

    /* Receive if that needs no wait. */
    std::optional<T> try_receive()
    {
        std::optional<T> item;
        take(item, deadline::now());
        return item;
    }

    /* Waiting and later sends fail; receivers get the remaining items. */
    void close() noexcept
    {
        gs_channel_close(native_);
    }

    /* For the C interface, whose items are the parcels. */
    gs_channel *native_handle() noexcept
    {
        return native_;
    }

  private:
    using parcel = detail::parcel<T>;
    using packed = typename parcel::type;

    int give(T &item, deadline limit)
    {
        const packed &sent = parcel::pack(item);
        const int result = detail::wait(gs_channel_send, native_, &sent, limit.ns());
        if (result)
            parcel::not_sent(item, sent);
        else
            parcel::sent(item);
        return result;
    }

    int take(std::optional<T> &ret_item, deadline limit)
    {
        detail::unpacked<T> received;
        const int result =
            detail::wait(gs_channel_receive, native_, static_cast<void *>(&received), limit.ns());
        if (!result)
            ret_item.emplace(parcel::open(received.value));
        return result;
    }

    static void destroy(void *item, void *) noexcept
    {
        packed remaining;
        std::memcpy(&remaining, item, sizeof(packed));
        parcel::open(remaining);
    }

    gs_channel *native_ = nullptr;
};

} // namespace gossamer

#endif
