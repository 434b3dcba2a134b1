# SPDX-License-Identifier: Apache-2.0
"""System calls made by another process: what an attacker can do who runs code in it.  x86_64 alone."""
import ctypes
import os
import platform
import signal

import berthtest as b
import proc

SEIZE, INTERRUPT, GETREGS, SETREGS, STEP, DETACH = 0x4206, 0x4207, 12, 13, 9, 17
NAMES = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs").split()


class Registers(ctypes.Structure):
    _fields_ = [(n, ctypes.c_ulonglong) for n in NAMES]


def ptrace(how, pid, data=None):
    proc.libc.ptrace.restype = ctypes.c_long
    proc.check(proc.libc.ptrace(ctypes.c_long(how), ctypes.c_long(pid), None, data), f"ptrace {how}")


class Puppet:
    """with Puppet(pid) as p: p.call(165, ...) gives the result, negative errno's included.  The process sleeps in a call."""

    def __init__(self, pid):
        if platform.machine() != "x86_64":
            raise b.skip("registers of x86_64 alone")
        self.pid = pid

    def stopped(self):
        _, status = os.waitpid(self.pid, 0x40000000)  # __WALL
        assert os.WIFSTOPPED(status), status

    def __enter__(self):
        ptrace(SEIZE, self.pid)
        ptrace(INTERRUPT, self.pid)
        self.stopped()
        self.saved = Registers()
        ptrace(GETREGS, self.pid, ctypes.byref(self.saved))
        with open(f"/proc/{self.pid}/mem", "rb") as f:
            f.seek(self.saved.rip - 2)
            assert f.read(2) == b"\x0f\x05", "it does not sleep in a system call"
        return self

    def call(self, number, *args):
        r = Registers.from_buffer_copy(self.saved)
        r.rip, r.rax, r.orig_rax = self.saved.rip - 2, number, 2 ** 64 - 1
        for name, value in zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), args + (0,) * (6 - len(args))):
            setattr(r, name, value % 2 ** 64)
        ptrace(SETREGS, self.pid, ctypes.byref(r))
        ptrace(STEP, self.pid)
        self.stopped()
        ptrace(GETREGS, self.pid, ctypes.byref(r))
        return ctypes.c_longlong(r.rax).value

    def text(self, words):
        """The address of a string, below its stack."""
        at = self.saved.rsp - 4096
        with open(f"/proc/{self.pid}/mem", "r+b", 0) as f:
            f.seek(at)
            f.write(words.encode() + b"\0")
        return at

    def __exit__(self, *unused):
        # the call that was interrupted goes on as after a signal without a handler
        r = self.saved
        if ctypes.c_longlong(r.rax).value in (-512, -513, -514, -516):
            r.rip, r.rax = r.rip - 2, r.orig_rax
            if ctypes.c_longlong(self.saved.rax).value == -516:
                r.rax = 219  # restart_syscall
        r.orig_rax = 2 ** 64 - 1
        ptrace(SETREGS, self.pid, ctypes.byref(r))
        ptrace(DETACH, self.pid)
