

# Follows runner.py in an interpreter that stays: the module is imported once, and each message on the
# socket at descriptor 3 brings the descriptors of one call, which a fork serves.

# Also what only the forks need: each of them would have to import it.
import ctypes, gc, resource, select, signal, socket, stat, struct, time


def keep(module, cwd):
    # It was for this interpreter: a fork would find every function anew that was not called before.
    os.environ.pop("LD_BIND_NOW", None)
    control = Control(3)

    # Where the descriptors of a call will be, nothing of the module's may be.
    while os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC) < 5:
        pass
    descriptors = os.listdir("/proc/self/fd")
    # What this file has imported already would be taken for the tool's.
    if module.split(".")[0] in sys.modules:
        return control.say(NOT_READY)
    find_from(module, cwd)
    try:
        import_module(module)
    except BaseException:
        # A run of its own tells the caller what is wrong.
        return control.say(NOT_READY)
    # A fork would have only one of several threads, and perhaps the locks of the others; and what is open or
    # shared would be so between calls.
    if len(os.listdir("/proc/self/task")) > 1 or os.listdir("/proc/self/fd") != descriptors or is_shared():
        return control.say(NOT_READY)
    kit, traces = Kit(control), Traces()
    family = kit.family
    if not traces.are_seen():
        return control.say(NOT_READY)
    prefixes = tuple({sys.prefix, sys.base_prefix, sys.exec_prefix})
    files = [getattr(it, "__file__", None) for it in list(sys.modules.values())]
    own = sorted({it for it in files if it and not it.startswith(prefixes)})
    # What an interpreter notes about code as it runs, each fork would have to note.
    for _ in range(20):
        rehearse(kit.there)
    # What lives now lives on; a collection that walked it would copy its pages in every fork.
    gc.collect()
    gc.freeze()
    control.say(told({"ready": True, "files": own}))
    ahead = leaving = None
    while True:
        # Forks are made ahead, so that no call waits for one: the one whose turn it is, and the next.
        if leaving and not ahead:
            # Its place may be needed.
            leaving.bury()
            leaving = None
        worker = ahead or Worker(kit)
        worker.begin()
        if leaving:
            leaving.bury()
        ahead = stand_by(kit)
        if not control.has_call():
            # For the pages that are written to after the call: the first write since the fork is slow. The call may have
            # come just now, so nothing is concluded from it.
            try:
                family.is_only(worker, ahead), traces.glance()
            except OSError:
                pass
        code, left = worker.end(ahead)
        clean = not left and traces.none()
        try:
            control.say(DONE if clean and code == 0 else told({"code": code, "clean": clean}))
        except OSError:
            return  # glee has gone, and the workers because of that.
        if not clean:
            return
        leaving = worker


def stand_by(kit):
    # Nothing but the shield keeps a call from the fork that waits for the next.
    if kit.shield.layer is None or not kit.family.is_known():
        return None
    try:
        return Worker(kit)
    except OSError:
        # The call has begun, and uses all there is.
        return None


def told(message):
    return json.dumps(message).encode() + b"\n"


NOT_READY, DONE = told({"ready": False}), told({"code": 0, "clean": True})


class Control:
    # The way to glee.
    ROOM = socket.CMSG_SPACE(6 * 4)

    def __init__(self, descriptor):
        self.socket, self.poll = socket.socket(fileno=descriptor), select.poll()
        self.poll.register(descriptor, select.POLLIN)

    def say(self, message):
        self.socket.sendall(message)

    def has_call(self, patience=0):
        # In milliseconds.
        return bool(self.poll.poll(patience))

    def take_call(self):
        # The descriptors of a call; none when glee has gone.
        _, rights, _, _ = self.socket.recvmsg(1, self.ROOM)
        return memoryview(rights[0][2]).cast("i") if rights else ()


def is_shared():
    # Whether there is memory that forks would share.
    with open("/proc/self/maps") as maps:
        return any(line.split()[1].startswith("rw-s") for line in maps)


class Kit:
    # What a fork is given.
    def __init__(self, control):
        self.control, self.shield, self.family = control, Shield(), Family()
        # The environment, as it is before a call says what it should be.
        self.there = dict(os.environ)
        # No descriptor is as high.
        self.most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class Worker:
    # A fork that serves one call.
    def __init__(self, kit):
        self.family = kit.family
        turn, self.turn = os.pipe()
        try:
            self.process = os.fork()
        except OSError:
            os.close(turn)
            os.close(self.turn)
            raise
        if self.process == 0:
            os.close(self.turn)
            work(kit, turn)
        os.close(turn)
        self.name = b"%d " % self.process
        self.children = self.family.open(self.process)
        self.threads = os.open(f"/proc/{self.process}/task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def begin(self):
        os.write(self.turn, b".")

    def end(self, ahead):
        # Waits for the end of the call: its code, and whether it left a process behind.
        _, status = os.waitpid(self.process, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            # It has said all. From here on it runs no more and makes no process; the rest of its end, which
            # takes longer than all this, need not be waited for.
            os.kill(self.process, 9)
            if self.family.is_only(self, ahead):
                return 0, False
            os.waitpid(self.process, 0)
            status = 0
        self.process = None
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return code, not self.family.is_alone(ahead)

    def bury(self):
        if self.process:
            os.waitpid(self.process, 0)
        os.close(self.turn)
        os.close(self.threads)
        if self.children is not None:
            os.close(self.children)


def work(kit, turn):
    # Until the call has come this is our own code; then the way to glee is closed.
    control, there = kit.control, kit.there
    status = 1
    try:
        kit.shield.put_on()
        # What `random` does by itself.
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed()
        if not os.read(turn, 1):
            os._exit(0)
        # Of calls that come close on each other none waits for this.
        if not control.has_call(2):
            rehearse(there)
        fds = control.take_call()
        if not fds:
            os._exit(0)
        # Received descriptors are above 3 and in order, so none is overwritten before its turn.
        for at, fd in enumerate(fds):
            os.dup2(fd, at)
        os.closerange(6, kit.most)
        kit.shield.open_memory()
        status = serve(3, 4, there)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        # The memory of a large one is waited for, so that the next call does not find it taken. So is what failed
        # perhaps by a limit, which only the end of all tells.
        if status != SCARCE and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < kit.family.memory + (16 << 10):
            os.closerange(0, kit.most)
            os.kill(os.getpid(), signal.SIGSTOP)
    finally:
        os._exit(status)


def rehearse(there):
    # Answers a request that runs nothing of the tool, for the pages that a call will write to.
    request = {"module": "builtins", "function": "len", "args": [""], "kwargs": {}}
    request.update({"cwd": sys.path[0], "return": "json", "env": there})
    (source, into), (out, sink) = os.pipe(), os.pipe()
    write(into, json.dumps(request).encode())
    serve(source, sink, there)
    os.close(out)


class Family:
    # The children of this process: its forks, and whatever a call leaves running.
    # Links of a directory of threads that holds only one: each counts, where they are counted.
    LINKS = 3

    def __init__(self):
        # PR_SET_CHILD_SUBREAPER
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
        self.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.own = self.open(os.getpid()) if os.stat("/proc/self/task").st_nlink == self.LINKS else None

    def open(self, process):
        try:
            return os.open(f"/proc/{process}/task/{process}/children", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            # A kernel that does not tell.
            return None

    def is_known(self):
        return self.own is not None

    def are(self, known):
        # They are told in the order in which they came.
        return os.pread(self.own, 4096, 0) == known

    def is_only(self, worker, ahead):
        # Whoever was left by the worker, which makes no more, is still its child or is ours already. The
        # children of another thread become those of the first, or ours, before that thread is gone.
        return (
            self.is_known()
            and os.fstat(worker.threads).st_nlink == self.LINKS
            and not os.pread(worker.children, 1, 0)
            and self.are(worker.name + ahead.name if ahead else worker.name)
        )

    def is_alone(self, ahead):
        try:
            # With __WALL, or one that was made not to be waited for would be passed over.
            while ended := os.waitpid(-1, os.WNOHANG | 0x40000000)[0]:
                if ahead and ended == ahead.process:
                    return False
        except ChildProcessError:
            return ahead is None
        return ahead is not None and self.are(ahead.name)


class Traces:
    # What a call could leave behind for the next one, besides processes.
    SCRATCH = ("/tmp", "/dev/shm")
    # Limits of this process, and System V objects, which outlive their makers.
    TOLD = ("/proc/self/limits", "/proc/sysvipc/shm", "/proc/sysvipc/msg", "/proc/sysvipc/sem")

    def __init__(self):
        told = [os.open(it, os.O_RDONLY | os.O_CLOEXEC) for it in self.TOLD]
        # As far as there is something, and no further: anything more is a change.
        self.told = [(it, len(os.pread(it, 1 << 20, 0)) + 1) for it in told]
        self.before, self.found = self.state(), self.files()
        self.smooth()

    def none(self):
        if self.state() != self.before:
            return False
        is_settled, is_touched = self.is_settled(), self.touch() != self.touched
        if is_touched or not self.is_sure:
            if self.files() != self.found:
                return False
            self.is_sure = is_settled
            if is_touched:
                self.smooth()
        return True

    def glance(self):
        return self.state() == self.before, self.touch() == self.touched

    def are_seen(self):
        # Whether a change would be. What is written to a file by way of memory changes none of its times, unless the
        # file grows.
        files = [os.lstat(path) for path, it in self.found.items() if it and stat.S_ISREG(it[1])]
        if any(it.st_size for it in files):
            return False
        # The kernel tells a page at once, and only that is looked at.
        return not any(os.pread(it, 1, size - 1) for it, size in self.told)

    def state(self):
        told = [os.pread(it, size, 0) for it, size in self.told]
        return told, os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)

    def files(self):
        # All that is there, as far as a call could change it.
        left, found = list(self.SCRATCH), {}
        devices = {os.lstat(it).st_dev for it in left}
        while left:
            path = left.pop()
            it = os.lstat(path)
            if it.st_dev not in devices:
                found[path] = None
                continue
            found[path] = [it.st_ino, it.st_mode, it.st_uid, it.st_gid, self.attributes(path)]
            if stat.S_ISDIR(it.st_mode):
                left += [os.path.join(path, name) for name in os.listdir(path)]
            else:
                # Nobody can choose the time of the last change.
                found[path] += [it.st_ctime_ns, it.st_size]
        return found

    def attributes(self, path):
        try:
            return {it: os.getxattr(path, it, follow_symlinks=False) for it in os.listxattr(path, follow_symlinks=False)}
        except OSError:
            return None

    def smooth(self):
        # The times of a directory would tell something, too.
        for path, it in self.found.items():
            if it and len(it) == 5:
                os.utime(path, ns=(0, 0), follow_symlinks=False)
        # Until the clock of the file system has gone on, what changes has the times that are seen now.
        self.touched, self.is_sure = self.touch(), False

    def touch(self):
        # What is made, changed or removed is seen in the times of what was there. Nobody can choose the second.
        try:
            there = [os.lstat(path) for path, it in self.found.items() if it]
        except OSError:
            return None
        return [(it.st_mtime_ns, it.st_ctime_ns) for it in there]

    def is_settled(self):
        # CLOCK_REALTIME_COARSE, which is the clock of file systems.
        return bool(self.touched) and time.clock_gettime_ns(5) > max(changed for _, changed in self.touched)


class Shield:
    # Keeps a call from the process it was forked from, as the sandbox keeps it from all others. What can
    # be prepared is prepared here, so that a fork only enters it.
    CALLS = {
        # kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_open
        "x86_64": (62, 200, 234, 129, 297, 434),
        "aarch64": (129, 130, 131, 138, 240, 434),
    }

    def __init__(self):
        libc = ctypes.CDLL(None, use_errno=True)
        self.prctl, self.syscall, self.errno = libc.prctl, libc.syscall, ctypes.get_errno
        # PR_SET_DUMPABLE: nobody in the sandbox can read or change this process's memory.
        self.prctl(4, 0, 0, 0, 0)
        code = self.filter(os.getpid())
        code = ctypes.create_string_buffer(code, len(code))

        class Program(ctypes.Structure):
            _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

        # PR_SET_SECCOMP, SECCOMP_MODE_FILTER: for the forks, which inherit it. This process has no use for what it refuses.
        if self.prctl(22, 2, ctypes.byref(Program(len(code) // 8, ctypes.addressof(code))), 0, 0) != 0:
            raise OSError(self.errno(), "seccomp")
        self.layer = self.scope()

    def scope(self):
        # A Landlock layer that no signal leaves, nor a connection to an abstract socket, nor a trace. It
        # names renames across directories and allows them, or it would forbid them as every layer does
        # that is silent. Kernels before 6.12 know no such layer; there the filter stands alone.
        refer = 1 << 13
        wanted = struct.pack("=QQQ", refer, 0, 0b11)
        layer = self.syscall(444, wanted, len(wanted), 0)
        if layer < 0:
            return None
        root = os.open("/", os.O_PATH | os.O_CLOEXEC)
        added = self.syscall(445, layer, 1, struct.pack("=Qi", refer, root), 0)
        os.close(root)
        return layer if added == 0 else None

    def filter(self, keeper):
        # A seccomp filter: none of the calls above may name the keeper, its group, or everybody.
        calls = self.CALLS[os.uname().machine]
        load, jump_if_equal, give = 0x20, 0x15, 0x06
        number, first_argument = 0, 16
        allow, refuse = 0x7FFF0000, 0x00050001
        named = [keeper & 0xFFFFFFFF, -keeper & 0xFFFFFFFF, 0xFFFFFFFF]
        code = [(load, 0, 0, number)]
        code += [(jump_if_equal, len(calls) - at, 0, call) for at, call in enumerate(calls)]
        code += [(give, 0, 0, allow), (load, 0, 0, first_argument)]
        code += [(jump_if_equal, len(named) - at, 0, it) for at, it in enumerate(named)]
        code += [(give, 0, 0, allow), (give, 0, 0, refuse)]
        return b"".join(struct.pack("=HBBI", *it) for it in code)

    def put_on(self):
        # In a group of its own, so that a signal to that does not mean the keeper.
        os.setsid()
        if self.layer is not None and self.syscall(446, self.layer, 0) != 0:
            raise OSError(self.errno(), "landlock")

    def open_memory(self):
        # The memory of the call is its own again.
        self.prctl(4, 1, 0, 0, 0)


keep(sys.argv[1], sys.argv[2])
