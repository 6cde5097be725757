/* How much stack functions need that the compiler does not see, in bytes: of the runtime (gs_cc_)
 * with the library below, and of the C library. Some of each group are measured with a painted
 * stack (tests/compiler/stacks/allowances.c), and need at most three quarters of it with glibc 2.36
 * when symbols are bound before the program runs (-z now). */
#ifndef GS_COMPILER_ALLOWANCES_H
#define GS_COMPILER_ALLOWANCES_H

#include <stddef.h>
#include <string.h>

/* By a group of functions: between all names, before the first and behind the last is a space. */
static const struct allowance {
    unsigned bytes;
    const char *names;
} allowances[] = {
    /* Calls that wait. */
    {2048, " gs_cc___on_stack gs_cc___blocking gs_cc_read gs_cc_write gs_cc_readv gs_cc_writev"
           " gs_cc_recv gs_cc_send gs_cc_recvfrom gs_cc_sendto gs_cc_recvmsg gs_cc_sendmsg"
           " gs_cc_accept gs_cc_accept4 gs_cc_connect gs_cc_poll gs_cc_sleep gs_cc_usleep"
           " gs_cc_nanosleep gs_cc_clock_nanosleep gs_cc_sched_yield gs_cc_pthread_yield"
           " gs_cc_thrd_yield gs_cc___waiting_loop gs_cc_pthread_join gs_cc_pthread_mutex_lock"
           " gs_cc_pthread_mutex_timedlock gs_cc_pthread_cond_wait gs_cc_pthread_cond_timedwait"
           " gs_cc_pthread_rwlock_rdlock gs_cc_pthread_rwlock_wrlock gs_cc_pthread_barrier_wait"
           " gs_cc_sem_wait gs_cc_sem_timedwait gs_cc_open gs_cc_open64 "},
    /* Those that do not. */
    {1024, " gs_cc_box gs_cc_box_free gs_cc_thread_local gs_cc_record gs_cc_record_free"
           " gs_cc_environment gs_cc_environment_free gs_cc_save gs_cc_restore"
           " gs_cc_pthread_create gs_cc_pthread_detach gs_cc_pthread_self gs_cc_pthread_equal"
           " gs_cc_pthread_mutex_init gs_cc_pthread_mutex_destroy gs_cc_pthread_mutex_trylock"
           " gs_cc_pthread_mutex_unlock gs_cc_pthread_cond_init gs_cc_pthread_cond_destroy"
           " gs_cc_pthread_cond_signal gs_cc_pthread_cond_broadcast gs_cc_pthread_rwlock_unlock"
           " gs_cc_pthread_getspecific gs_cc_pthread_setspecific gs_cc_pthread_setcancelstate"
           " gs_cc_sem_post gs_cc_sem_trywait gs_cc_sem_init gs_cc_sem_destroy gs_cc_close"
           " gs_cc_socket gs_cc_setsockopt gs_cc_fcntl gs_cc_pipe gs_cc_dup gs_cc___set_jump "},
    {14336, " gs_cc_select "},
    /* The C library: nothing but a frame or two. */
    {256, " memcpy memmove memset memcmp memchr memrchr strlen strnlen strcpy strncpy strcat"
          " strncat strcmp strncmp strcasecmp strncasecmp strchr strrchr stpcpy __strcpy_chk bcmp"
          " __memcpy_chk __memset_chk __memmove_chk"
          " __strcat_chk strtol strtoul strtoll strtoull atoi atol inet_pton htons"
          " time clock_gettime gettimeofday getenv rand_r random rand srandom srand"
          " tolower toupper __ctype_b_loc __ctype_tolower_loc __ctype_toupper_loc"
          " __errno_location getpid getppid getuid geteuid gettid lseek lseek64 unlink"
          " getsockname getpeername getsockopt bind listen shutdown fstat stat ftruncate pread"
          " pwrite _setjmp setjmp __sigsetjmp isalnum isalpha isdigit isspace isupper islower"
          " isprint abs labs ffs _exit "},
    /* A table of all characters. */
    {512, " strspn strcspn strpbrk strsep strtok_r inet_addr "},
    /* It may look for memory in several places. */
    {1024, " malloc calloc realloc free strdup strndup "},
    {3584, " inet_ntop inet_ntoa gmtime_r localtime_r strstr memmem sin cos tan pow powi exp exp2"
           " exp10 log log2 log10 fma "},
    /* In some locales it loads a library that converts characters. */
    {12 * 1024, " strerror strerror_r __xpg_strerror_r strftime "},
    /* It puts what it converts on the stack, up to three times, of up to 64 KiB each. */
    {232 * 1024,
     " snprintf vsnprintf sprintf vsprintf __snprintf_chk __vsnprintf_chk __sprintf_chk"
     " __vsprintf_chk asprintf vasprintf sscanf vsscanf __isoc99_sscanf __isoc99_vsscanf"
     " __isoc23_sscanf strtod strtof strtold atof gs_cc_fprintf gs_cc_vfprintf"
     " gs_cc_printf gs_cc_vprintf gs_cc_dprintf gs_cc_vdprintf "},
    {4096, " gs_cc_puts gs_cc_fputs gs_cc_fputc gs_cc_putc gs_cc_putchar gs_cc_fwrite"
           " gs_cc_fflush gs_cc_fgets gs_cc_fread gs_cc_fgetc gs_cc_getc "},
};

/* Returns 0 if there is none. */
static inline unsigned cc_allowance(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof allowances / sizeof *allowances; i++)
        for (const char *at = allowances[i].names; (at = strstr(at, name)); at += n)
            if (at[-1] == ' ' && at[n] == ' ')
                return allowances[i].bytes;
    return 0;
}

#endif
