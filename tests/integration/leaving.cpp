// Leaves frames in user threads by exceptions, longjmp and the end of a thread, and waits in
// between.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <gossamer/gossamer.hpp>
#include <gossamer/io.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace std::chrono_literals;

__attribute__((noinline)) static int fill(char *bytes, std::size_t n, int i)
{
    std::memset(bytes, i, n);
    gossamer::this_thread::yield();
    return bytes[n - 1];
}

__attribute__((noinline)) static void fail(int i, int depth)
{
    char bytes[100];
    if (fill(bytes, sizeof bytes, i) == i && !depth)
        throw std::runtime_error("left");
    fail(i, depth - 1);
}

__attribute__((noinline)) static void jump(std::jmp_buf &target, int i)
{
    char bytes[200];
    if (fill(bytes, sizeof bytes, i) == i)
        std::longjmp(target, 1);
}

__attribute__((noinline)) static void leave(int i)
{
    char bytes[300];
    if (fill(bytes, sizeof bytes, i) == i)
        gs_thread_exit(nullptr);
}

static ssize_t receive(void *, const void *bytes, size_t n)
{
    char copy[64];
    std::memcpy(copy, bytes, n);
    try {
        fail(copy[0], 0);
    } catch (const std::runtime_error &) {
        return 1;
    }
    return 0;
}

static int exchange()
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends))
        return 0;
    gossamer::task<void> sender([=] {
        gossamer::this_thread::sleep(1ms);
        if (gs_send_all(ends[1], "x", 1, GS_NEVER) != 1)
            std::abort();
    });
    const ssize_t n = gs_recv_with(ends[0], receive, nullptr, GS_NEVER);
    sender.join();
    gs_close(ends[0]);
    gs_close(ends[1]);
    return static_cast<int>(n);
}

static int work(int i)
{
    int left = exchange();
    std::jmp_buf target;
    try {
        fail(i, i % 7);
    } catch (const std::runtime_error &) {
        left++;
    }
    if (setjmp(target))
        left++;
    else
        jump(target, i);
    char bytes[500];
    return left + (fill(bytes, sizeof bytes, i) == i);
}

int main(int argc, char **)
{
    // A sanitizer's allocator waits for others: the monitor would report that on a busy machine.
    return gossamer::run({.workers = 2, .stuck_ns = GS_NEVER}, [=] {
        int left = 0;
        gossamer::scope scope;
        for (int i = 1; i < 100; i++)
            scope.spawn([&left, i] {
                __atomic_fetch_add(&left, work(i), __ATOMIC_SEQ_CST);
                leave(i);
            });
        scope.wait();
        const pid_t child = gs_fork();
        if (!child)
            _exit(work(1) == 4 ? 7 : 8);
        int status = 0;
        if (gs_wait_child(child, GS_NEVER, &status))
            return 1;
        std::printf("%d left, %d\n", left, WEXITSTATUS(status));
        char bytes[10];
        return argc > 1 ? fill(bytes, sizeof bytes + 1, 1) - 1 : 0;
    });
}
