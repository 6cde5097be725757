/* Frames of several megabytes, in functions that are converted and in those that run on a stack. */
#include "program.h"
static int fds[2];
static int variadic(int n, ...)
{
    char big[4 << 20];
    memset(big, n, sizeof big);
    char byte;
    if (read(fds[0], &byte, 1) != 1)
        return -1;
    return big[12345] + byte;
}
static int vla(int n)
{
    char big[n << 20];
    memset(big, n, sizeof big);
    char byte;
    if (read(fds[0], &byte, 1) != 1)
        return -1;
    return big[12345] + byte;
}
static int fixed(int n)
{
    char big[3 << 20];
    memset(big, n, sizeof big);
    char byte;
    if (read(fds[0], &byte, 1) != 1)
        return -1;
    return big[12345] + byte;
}
static int deep(int n)
{
    char c[100];
    memset(c, n, 100);
    if (n == 0) {
        usleep(1);
        return 0;
    }
    return deep(n - 1) + c[50];
}
static void *work(void *a)
{
    printf("fixed %d\n", fixed(3));
    printf("variadic %d\n", variadic(1, 2));
    printf("vla %d\n", vla(5));
    printf("deep %d\n", deep(30000));
    return a;
}
int main(void)
{
    pthread_t t;
    if (pipe(fds))
        return 1;
    pthread_create(&t, NULL, work, NULL);
    usleep(1000);
    if (write(fds[1], "qrst", 4) != 4)
        return 1;
    pthread_join(t, NULL);
    return 0;
}
