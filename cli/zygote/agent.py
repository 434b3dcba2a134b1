def _berth_zygote():
    # The waiting interpreter.  argv: the word that says "ready", the name of the preload, its text
    # (none: the name is a file), its arguments.  stdin never has a byte: berth ends the read when
    # it wants a fork (runtime/sandbox/graft.h), and the fork's request comes on descriptor 3.
    import atexit, functools, gc, os, struct, sys, _socket, threading

    ready, name, text = sys.argv[1:4]
    space = sys.modules["__main__"].__dict__
    del space["_berth_zygote"]

    def run(text, name):
        try:
            exec(compile(text, name, "exec"), space)
            return 0
        except SystemExit as stop:
            if stop.code is None or isinstance(stop.code, int):
                return (stop.code or 0) & 255
            print(stop.code, file=sys.stderr)
            return 1
        except BaseException as error:
            trace = error.__traceback__.tb_next  # without this frame
            error.__traceback__ = trace
            sys.excepthook(type(error), error, trace)
            return 130 if isinstance(error, KeyboardInterrupt) else 1

    def flush():
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass

    # What draws each generator of the preload anew, a function of no argument.
    def generators():
        gc.unfreeze()  # what the preload froze is in no list
        found, owned = [], set()
        random, numpy = sys.modules.get("random"), sys.modules.get("numpy.random")
        for one in gc.get_objects():
            try:
                # Python seeds that of the module itself after a fork
                if random and isinstance(one, random.Random) and not isinstance(one, random.SystemRandom):
                    if one is not random._inst:
                        found.append(one.seed)
                elif numpy and isinstance(one, numpy.RandomState):
                    twister = type(one._bit_generator) is numpy.MT19937
                    found.append(functools.partial(twist if twister else replace, one))
                    owned.add(id(one._bit_generator))
                elif numpy and isinstance(one, numpy.BitGenerator):
                    found.append(functools.partial(copy, one))
                elif numpy and isinstance(one, numpy.SeedSequence):
                    found.append(functools.partial(sow, one))
            except Exception:
                pass
        # a RandomState sets its own bits
        return [f for f in found if not (getattr(f, "func", None) is copy and id(f.args[0]) in owned)]

    # All bits of the state from the kernel: numpy would spread 128 of them, which takes five times as
    # long.  set_state() also forgets the second of a pair of normal numbers.
    def twist(state):
        numpy = sys.modules["numpy"]
        state.set_state(("MT19937", numpy.frombuffer(os.urandom(2496), numpy.uint32), 624))

    def replace(state):
        state.set_state(dict(type(state._bit_generator)().state, has_gauss=0, gauss=0.0))

    def copy(bits):
        bits.state = type(bits)().state

    # Of itself it is drawn from the kernel; its children, and what is made of it, follow.
    def sow(seeds):
        kind = sys.modules["numpy.random"].SeedSequence
        kind.__init__(seeds, None, spawn_key=seeds.spawn_key, pool_size=seeds.pool_size,
                      n_children_spawned=seeds.n_children_spawned)

    # Everything that was drawn from the kernel once, and would be the same in all forks.
    def renew():
        loaded = sys.modules
        for draw in seeded:
            draw()
        if "torch" in loaded:
            loaded["torch"].seed()
        if "tempfile" in loaded:
            loaded["tempfile"]._name_sequence = None
        if "uuid" in loaded:
            loaded["uuid"]._node = loaded["uuid"]._last_timestamp = None
            loaded["uuid"]._generate_time_safe = None
        if "_ssl" in loaded:
            loaded["_ssl"].RAND_add(os.urandom(48), 48.0)

    # The code with what is around it; its stdin, stdout and stderr become the descriptors `onto`.
    def request(control, onto=range(3)):
        try:
            data, parts, flags, peer = control.recvmsg(1, _socket.CMSG_SPACE(20))
        except OSError:
            os._exit(125)
        if not data or not parts:
            os._exit(0)
        fds = memoryview(parts[0][2]).cast("i").tolist()
        for i in range(3):
            os.dup2(fds[i], onto[i])
        answer = fds.pop() if data == b"L" else -1
        size, got, pieces = os.fstat(fds[3]).st_size, 0, []
        while got < size:
            piece = os.pread(fds[3], size - got, got)
            if not piece:
                os._exit(125)
            pieces.append(piece)
            got += len(piece)
        for fd in fds:
            os.close(fd)
        return b"".join(pieces), answer

    # directory, name of the code, number of variables, them, number of arguments, them, the code
    def serve(data):
        where, name, count, data = data.split(b"\0", 3)
        for _ in range(int(count)):
            variable, data = data.split(b"\0", 1)
            key, _, value = variable.partition(b"=")
            os.environb[key] = value
        count, data = data.split(b"\0", 1)
        arguments = []
        for _ in range(int(count)):
            word, data = data.split(b"\0", 1)
            arguments.append(os.fsdecode(word))
        for stream in (sys.stdout, sys.stderr):
            if stream.isatty():
                stream.reconfigure(line_buffering=True)
        name = os.fsdecode(name)
        sys.argv = [name if name[:1] != "<" else "-c"] + arguments
        try:
            try:
                if where:
                    os.chdir(where)
            except FileNotFoundError:
                os.makedirs(where, exist_ok=True)
                os.chdir(where)
        except OSError as error:
            print(f"cannot enter {os.fsdecode(where)}: {error.strerror}", file=sys.stderr)
            return 125
        return run(data, name)

    # A fork that lives: request after request.  Signals end what a request does, not what waits for
    # one.  Each answers by a pipe of its own, which closes with the answer.
    def live(data, answer, control):
        import _signal

        heeds = _signal.getsignal(_signal.SIGINT) or _signal.default_int_handler
        null = os.open("/dev/null", os.O_RDWR)
        os.makedirs(home, exist_ok=True)
        os.chdir(home)
        while True:
            try:
                _signal.signal(_signal.SIGINT, heeds)
                code = serve(data)
                heeds = _signal.getsignal(_signal.SIGINT) or heeds
            except KeyboardInterrupt:
                code = 130
            finally:
                _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
            flush()
            for i in range(3):
                os.dup2(null, i)
            try:
                os.write(answer, bytes([code]))
            except OSError:
                pass
            os.close(answer)
            data, answer = request(control)

    # What each fork does first is done here a few times: then Python has made what it makes when it
    # needs it, and has learnt what types its code meets, and no fork writes that to pages of its own.
    def rehearse():
        argv, here = sys.argv, os.open(".", os.O_PATH)
        for _ in range(10):
            try:
                threading._after_fork()
            except Exception:
                pass
            renew()
            try:
                near, far = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
                fds = [os.memfd_create("berth")] + [os.open("/dev/null", os.O_RDWR) for _ in range(3)]
                os.write(fds[0], b"/\0<string>\x000\x000\0print(end='')")
                parts = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("4i", *fds[1:], fds[0]))]
                near.sendmsg([b"0"], parts)
            except OSError:
                break  # a filter or a limit of the sandbox's forbids it
            data, answer = request(_socket.socket(fileno=far.detach()), fds[1:])
            serve(data)
            flush()
            for fd in fds:
                os.close(fd)
            near.close()
        sys.argv = argv
        os.fchdir(here)
        os.close(here)

    def leave(code):
        try:
            threading._shutdown()
            atexit._run_exitfuncs()
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)
        flush()
        os._exit(code)

    sys.argv = ["-c" if name == "<zygote>" else name] + sys.argv[4:]
    if not text and name != "<zygote>":
        with open(name) as script:
            text = script.read()
    code = run(text, name)
    if code:
        flush()
        os._exit(code)
    flush()
    gc.collect()
    home = os.getcwd()
    seeded = generators()
    rehearse()
    gc.collect()
    gc.freeze()
    os.write(1, ready.encode() + b"\n")
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)
    while True:
        if os.read(0, 1) == b"":
            os._exit(0)
        try:
            if os.fork() == 0:
                break
        except OSError:
            continue
    renew()
    control = _socket.socket(fileno=3)
    data, answer = request(control)
    if answer >= 0:
        live(data, answer, control)
    control.close()
    leave(serve(data))


_berth_zygote()
