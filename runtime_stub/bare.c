/* What a program needs of a C library and a start, on Linux itself: such a program runs on any device, be its library
 * glibc, musl, bionic or none, and linking it needs no library for the target.
 *
 * Threads have no thread-local storage and no errno; functions that fail return -1 or NULL. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREAD_STACK = 1 << 20, GUARD = 1 << 16 };

/* The word that the kernel clears when a thread has ended, at the low end of its stack's memory. */
typedef struct bare_thread {
    _Alignas(64) int32_t running;
} bare_thread;

/* bare_clone(flags, stack, cleared): a thread that calls stack[0](stack[1]), and ends. */
int64_t bare_clone(uint64_t flags, void *stack, int32_t *cleared);
_Noreturn void bare_start(int64_t *stack);
int main(int count, char **arguments);

#if defined(__x86_64__)
__asm__(".text\n.globl _start\n.type _start,@function\n_start:\n"
        "xor %ebp, %ebp\nmov %rsp, %rdi\nand $-16, %rsp\ncall bare_start\nhlt\n"
        ".globl bare_clone\n.type bare_clone,@function\nbare_clone:\n"
        "mov %rdx, %r10\nxor %edx, %edx\nxor %r8d, %r8d\nmov $56, %eax\nsyscall\ntest %rax, %rax\njnz 1f\n"
        "xor %ebp, %ebp\npop %rax\npop %rdi\ncall *%rax\nxor %edi, %edi\nmov $60, %eax\nsyscall\n1: ret\n");

static int64_t bare_call(int64_t number, const int64_t a[6]) {
    register int64_t r10 __asm__("r10") = a[3], r8 __asm__("r8") = a[4], r9 __asm__("r9") = a[5];
    int64_t result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
__asm__(".text\n.globl _start\n.type _start,%function\n_start:\n"
        "mov x29, #0\nmov x30, #0\nmov x0, sp\nbl bare_start\nbrk #0\n"
        ".globl bare_clone\n.type bare_clone,%function\nbare_clone:\n"
        "mov x4, x2\nmov x2, #0\nmov x3, #0\nmov x8, #220\nsvc #0\ncbnz x0, 1f\n"
        "mov x29, #0\nldp x1, x0, [sp], #16\nblr x1\nmov x0, #0\nmov x8, #93\nsvc #0\n1: ret\n");

static int64_t bare_call(int64_t number, const int64_t a[6]) {
    register int64_t x8 __asm__("x8") = number, x0 __asm__("x0") = a[0], x1 __asm__("x1") = a[1],
                     x2 __asm__("x2") = a[2], x3 __asm__("x3") = a[3], x4 __asm__("x4") = a[4],
                     x5 __asm__("x5") = a[5];
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
#elif defined(__riscv)
__asm__(".text\n.globl _start\n.type _start,@function\n_start:\n"
        "mv a0, sp\nandi sp, sp, -16\ncall bare_start\nebreak\n"
        ".globl bare_clone\n.type bare_clone,@function\nbare_clone:\n"
        "mv a4, a2\nli a2, 0\nli a3, 0\nli a7, 220\necall\nbnez a0, 1f\n"
        "ld a1, 0(sp)\nld a0, 8(sp)\naddi sp, sp, 16\njalr a1\nli a0, 0\nli a7, 93\necall\n1: ret\n");

static int64_t bare_call(int64_t number, const int64_t a[6]) {
    register int64_t a7 __asm__("a7") = number, a0 __asm__("a0") = a[0], a1 __asm__("a1") = a[1],
                     a2 __asm__("a2") = a[2], a3 __asm__("a3") = a[3], a4 __asm__("a4") = a[4],
                     a5 __asm__("a5") = a[5];
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
    return a0;
}
#endif

#define CALL(number, ...) bare_call(number, (const int64_t[6]){__VA_ARGS__})
#define ADDRESS(p) ((int64_t)(intptr_t)(p))

/* As the library's, but for errno. */
long syscall(long number, ...) {
    int64_t a[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(rest, long);
    va_end(rest);
    const int64_t result = bare_call(number, a);
    return result < 0 && result > -4096 ? -1 : (long)result;
}

_Noreturn void bare_start(int64_t *stack) {
    const int status = main((int)stack[0], (char **)(stack + 1));
    for (;;) CALL(SYS_exit_group, status);
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    return (int)CALL(SYS_clock_gettime, clock, ADDRESS(t));
}

pid_t getpid(void) { return (pid_t)CALL(SYS_getpid, 0); }

int sched_getcpu(void) {
    uint32_t cpu = 0;
    return CALL(SYS_getcpu, ADDRESS(&cpu)) < 0 ? -1 : (int)cpu;
}

int sched_yield(void) { return (int)CALL(SYS_sched_yield, 0); }

int getrusage(int who, struct rusage *used) { return (int)CALL(SYS_getrusage, who, ADDRESS(used)); }

/* Zeros, of whole pages; NULL: there are no more. */
static void *bare_pages(int64_t bytes) {
    const int64_t at = CALL(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at < 0 && at > -4096 ? NULL : (void *)(intptr_t)at;
}

/* Only the pool's few words are asked for, and never given back. */
void *aligned_alloc(size_t alignment, size_t bytes) {
    (void)alignment;
    return bare_pages((int64_t)bytes);
}

void free(void *p) { (void)p; }

int pthread_create(pthread_t *made, const pthread_attr_t *how, void *(*function)(void *), void *argument) {
    const uint64_t flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                           CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID;
    char *memory = bare_pages(GUARD + THREAD_STACK);
    (void)how;
    if (!memory) return -1;
    CALL(SYS_mprotect, ADDRESS(memory + 4096), GUARD - 4096, PROT_NONE); /* the first page is the thread's word */
    bare_thread *thread = (bare_thread *)(void *)memory;
    void **top = (void **)(void *)(memory + GUARD + THREAD_STACK - 16);
    thread->running = 1;
    top[0] = (void *)(intptr_t)function;
    top[1] = argument;
    *made = (pthread_t)(uintptr_t)thread;
    return bare_clone(flags, top, &thread->running) < 0;
}

int pthread_join(pthread_t which, void **result) {
    bare_thread *thread = (bare_thread *)(uintptr_t)which;
    (void)result;
    for (int32_t seen; (seen = __atomic_load_n(&thread->running, __ATOMIC_ACQUIRE)) != 0;)
        CALL(SYS_futex, ADDRESS(&thread->running), FUTEX_WAIT, seen, 0, 0, 0);
    return 0;
}

/* Compilers make calls of these by themselves, also of these loops unless they are told. */
#define NO_BUILTIN __attribute__((no_builtin, used))

NO_BUILTIN void *memset(void *to, int value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)to)[i] = (unsigned char)value;
    return to;
}

NO_BUILTIN void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
    return to;
}

NO_BUILTIN void *memmove(void *to, const void *from, size_t bytes) {
    if ((uintptr_t)to - (uintptr_t)from >= bytes) return memcpy(to, from, bytes);
    for (size_t i = bytes; i-- > 0;) ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
    return to;
}

NO_BUILTIN int memcmp(const void *one, const void *other, size_t bytes) {
    const unsigned char *a = one, *b = other;
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
}

NO_BUILTIN int bcmp(const void *one, const void *other, size_t bytes) { return memcmp(one, other, bytes); }

NO_BUILTIN size_t strlen(const char *text) {
    size_t count = 0;
    while (text[count]) count++;
    return count;
}
