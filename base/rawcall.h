/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rawcall - a system call that touches no memory of the C library, errno above all: for code that runs in the
 * memory of another thread or process of ours, without thread-local storage of its own.
 */
#ifndef BERTH_BASE_RAWCALL_H
#define BERTH_BASE_RAWCALL_H

/* What the kernel answers: a negative errno when it failed.  (syscall(2), "Architecture calling conventions") */
static inline long rawcall(long nr, long a, long b, long c, long d)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = nr, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
#else
#error "berth knows the system calls of x86_64 and aarch64"
#endif
}

#endif
