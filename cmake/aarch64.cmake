# To build for aarch64 elsewhere, and to run what was built under QEMU.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
# A small address space, because QEMU keeps a table of all pages that are reserved in it. The tests need about 4 GiB.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -R 8G -L /usr/aarch64-linux-gnu)
# QEMU 7.2 itself fails once in some thousands of tests, in its own code: that says nothing about the test.
set(GS_EMULATOR_FAULT SKIP_REGULAR_EXPRESSION "accel/tcg/cpu-exec.c:[0-9]+:cpu_exec: assertion failed")
