# Runs functions for glee. A request comes on descriptor 3 and its answer goes to descriptor 4, so that
# whatever the function prints cannot get between. Descriptor 5 is for notes, if the function has any.
#
# Without arguments: one request, then the end. With `keep MODULE CWD`: the module is imported once, and
# each message on the socket at descriptor 3 brings the descriptors of one call, which a fork serves.
import json, os, sys, traceback


def serve():
    with os.fdopen(3, "rb") as stream:
        request = json.load(stream)
    answer = os.fdopen(4, "wb")
    sys.argv = [request["module"]]
    find_from(request["module"], request["cwd"])
    me = os.getpid()
    head, payload = respond(request)
    if os.getpid() != me:
        # A child the function forked came back here; the answer is its parent's.
        os._exit(0)
    answer.write(json.dumps(head).encode() + b"\n" + payload)
    answer.close()
    return 0 if head["ok"] else 1


def respond(request):
    if "env" in request:
        os.environ.clear()
        os.environ.update(request["env"])
    try:
        value = call(request)
        if request["return"] == "text":
            return {"ok": True}, ("" if value is None else str(value)).encode("utf-8", "replace")
        return {"ok": True}, json.dumps(value, allow_nan=False).encode()
    except BaseException as err:
        lines = traceback.format_exception(type(err), err, drop_own_frames(err.__traceback__))
        told = {"type": type(err).__name__, "message": readable(str(err)), "traceback": readable("".join(lines))}
        return {"ok": False, **told}, b""


def find_from(module, cwd):
    if cwd not in sys.path[:1]:
        compile_anew_but([it for it in sys.path if not (cwd + "/").startswith(it + "/")])
        sys.path.insert(0, cwd)
        sys.meta_path.append(Own(module, cwd))


def compile_anew_but(installed):
    # What was compiled before, in a `__pycache__`, need not be what the module says, and nobody has seen
    # it. Only what belongs to the installation is taken from there. A loader that cannot tell the age of
    # a source compiles it.
    from importlib.machinery import SourceFileLoader

    known, places = SourceFileLoader.path_stats, tuple(it + "/" for it in installed)

    def path_stats(loader, path):
        if not path.startswith(places):
            raise OSError(path)
        return known(loader, path)

    SourceFileLoader.path_stats = path_stats


class Own:
    # Finds the module itself where its directory cannot be listed, as Python's own finder does: the
    # sandbox shows the tool its module, but not what else lies beside it.
    def __init__(self, module, cwd):
        self.module, self.cwd = module, cwd

    def find_spec(self, name, path=None, target=None):
        from importlib.machinery import ModuleSpec
        from importlib.util import spec_from_file_location

        if not (self.module + ".").startswith(name + "."):
            return None
        base = os.path.join(self.cwd, *name.split("."))
        package = os.path.join(base, "__init__.py")
        if os.path.isfile(package):
            return spec_from_file_location(name, package, submodule_search_locations=[base])
        if os.path.isfile(base + ".py"):
            return spec_from_file_location(name, base + ".py")
        if os.path.isdir(base):
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [base]
            return spec
        return None


def call(request):
    import importlib

    function = importlib.import_module(request["module"])
    for name in request["function"].split("."):
        function = getattr(function, name)
    value = function(*request["args"], **request["kwargs"])
    if hasattr(value, "__await__"):
        import asyncio

        async def wait():
            return await value

        value = asyncio.run(wait())
    return value


def drop_own_frames(tb):
    start = tb
    while tb is not None and tb.tb_frame.f_code.co_filename == "<string>":
        tb = tb.tb_next
    return tb or start


def readable(text):
    # File names may hold halves of characters, which JSON cannot.
    return text.encode("utf-8", "backslashreplace").decode()


def keep(module, cwd):
    import gc, importlib, socket

    control = socket.socket(fileno=3)

    def say(message):
        control.sendall(json.dumps(message).encode() + b"\n")

    find_from(module, cwd)
    try:
        importlib.import_module(module)
    except BaseException:
        # A run of its own tells the caller what is wrong.
        return say({"ready": False})
    # A fork would have only one of several threads, and perhaps the locks of the others.
    if len(os.listdir("/proc/self/task")) > 1:
        return say({"ready": False})
    shield, traces = Shield(), Traces()
    prefixes = tuple({sys.prefix, sys.base_prefix, sys.exec_prefix})
    files = [getattr(it, "__file__", None) for it in list(sys.modules.values())]
    own = sorted({it for it in files if it and not it.startswith(prefixes)})
    # What lives now lives on; a collection that walked it would copy its pages in every fork.
    gc.collect()
    gc.freeze()
    say({"ready": True, "files": own})
    while True:
        # The fork is made ahead, so that no call waits for it.
        worker = os.fork()
        if worker == 0:
            work(control, shield)
        if nobody_waits(control):
            # For the pages that are written to after the call: the first write since the fork is slow.
            traces.none(), json.dumps({"code": 0, "clean": True})
        _, status = os.waitpid(worker, 0)
        clean = traces.none()
        try:
            say({"code": os.waitstatus_to_exitcode(status), "clean": clean})
        except OSError:
            return  # glee has gone, and the worker because of that.
        if not clean:
            return
        # glee may have been woken on this very processor, and should not wait for the next fork.
        os.sched_yield()


def work(control, shield):
    # Until the call has come this is our own code; then the way to glee is closed.
    import random, resource, socket

    status = 1
    try:
        shield.put_on()
        random.seed()
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed()
        if nobody_waits(control):
            rehearse()
        message, fds, _, _ = socket.recv_fds(control, 1, 6)
        if not message:
            os._exit(0)
        # Received descriptors are above 3 and in order, so none is overwritten before its turn.
        for at, fd in enumerate(fds):
            os.dup2(fd, at)
        os.closerange(6, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        status = serve()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
    finally:
        os._exit(status)


def nobody_waits(control):
    import select

    return not select.select([control], [], [], 0)[0]


def rehearse():
    # Answers a request that runs nothing of the tool, for the pages that a call will write to.
    source, sink = os.pipe()
    request = {"module": "builtins", "function": "len", "args": [""], "kwargs": {}, "return": "json", "env": dict(os.environ)}
    with os.fdopen(sink, "wb") as stream:
        stream.write(json.dumps(request).encode())
    with os.fdopen(source, "rb") as stream:
        respond(json.load(stream))


class Traces:
    # What a call could leave behind for the next one.
    SCRATCH = ("/tmp", "/dev/shm")

    def __init__(self):
        import ctypes, resource

        # PR_SET_CHILD_SUBREAPER: what a call leaves running becomes a child of this process.
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
        self.getrlimit = resource.getrlimit
        self.kinds = [getattr(resource, it) for it in dir(resource) if it.startswith("RLIMIT_")]
        self.before, self.names, self.touched = self.state(), self.files(), self.touch()

    def none(self):
        if self.state() != self.before:
            return False
        touched = self.touch()
        if touched != self.touched:
            if self.files() != self.names:
                return False
            self.touched = touched
        return self.no_process()

    def no_process(self):
        try:
            # With __WALL, or one that was made not to be waited for would be passed over.
            while os.waitpid(-1, os.WNOHANG | 0x40000000)[0]:
                pass
        except ChildProcessError:
            return True
        return False

    def state(self):
        limits = [self.getrlimit(it) for it in self.kinds]
        return limits, os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0), self.objects()

    def objects(self):
        # System V objects outlive their makers.
        found = []
        for kind in ("shm", "msg", "sem"):
            with open("/proc/sysvipc/" + kind, "rb", 0) as file:
                found.append(file.read().count(b"\n"))
        return found

    def files(self):
        return [sorted(os.listdir(it)) for it in self.SCRATCH]

    def touch(self):
        return [(it.st_mtime_ns, it.st_ctime_ns) for it in map(os.stat, self.SCRATCH)]


class Shield:
    # Keeps a call from the process it was forked from, as the sandbox keeps it from all others. What can
    # be prepared is prepared here, so that a fork only enters it.
    CALLS = {
        # kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_open
        "x86_64": (62, 200, 234, 129, 297, 434),
        "aarch64": (129, 130, 131, 138, 240, 434),
    }

    def __init__(self):
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        self.prctl, self.syscall, self.errno = libc.prctl, libc.syscall, ctypes.get_errno
        # PR_SET_DUMPABLE: nobody in the sandbox can read or change this process's memory.
        self.prctl(4, 0, 0, 0, 0)
        code = self.filter(os.getpid())
        self.code = ctypes.create_string_buffer(code, len(code))

        class Program(ctypes.Structure):
            _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

        self.program = ctypes.byref(Program(len(code) // 8, ctypes.addressof(self.code)))
        self.layer = self.scope()

    def scope(self):
        # A Landlock layer that no signal leaves, nor a connection to an abstract socket, nor a trace. It
        # names renames across directories and allows them, or it would forbid them as every layer does
        # that is silent. Kernels before 6.12 know no such layer; there the filter stands alone.
        import struct

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
        import struct

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
        # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        if self.prctl(22, 2, self.program, 0, 0) != 0:
            raise OSError(self.errno(), "seccomp")
        # The fork's memory is its own again.
        self.prctl(4, 1, 0, 0, 0)


if sys.argv[1:2] == ["keep"]:
    keep(sys.argv[2], sys.argv[3])
else:
    sys.exit(serve())
