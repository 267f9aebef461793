# Runs functions for glee. A request comes on descriptor 3 and its answer goes to descriptor 4, so that
# whatever the function prints cannot get between. Descriptor 5 is for notes, if the function has any.
#
# Without arguments: one request, then the end. With `keep MODULE CWD`: the module is imported once, and
# each message on the socket at descriptor 3 brings the descriptors of one call, which a fork then serves.
import json, os, sys, traceback


def serve():
    with os.fdopen(3, "rb") as stream:
        request = json.load(stream)
    answer = os.fdopen(4, "wb")
    sys.argv = [request["module"]]
    find_from(request["module"], request["cwd"])
    me = os.getpid()
    if "env" in request:
        os.environ.clear()
        os.environ.update(request["env"])
    try:
        value = call(request)
        if request["return"] == "text":
            payload = ("" if value is None else str(value)).encode("utf-8", "replace")
        else:
            payload = json.dumps(value, allow_nan=False).encode()
        head = {"ok": True}
    except BaseException as err:
        lines = traceback.format_exception(type(err), err, drop_own_frames(err.__traceback__))
        head = {"ok": False, "type": type(err).__name__, "message": readable(str(err)), "traceback": readable("".join(lines))}
        payload = b""
    if os.getpid() != me:
        # A child the function forked came back here; the answer is its parent's.
        os._exit(0)
    answer.write(json.dumps(head).encode() + b"\n" + payload)
    answer.close()
    return 0 if head["ok"] else 1


def find_from(module, cwd):
    if cwd not in sys.path[:1]:
        sys.path.insert(0, cwd)
        sys.meta_path.append(Own(module, cwd))


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
    import ctypes, importlib, random, resource, socket

    control = socket.socket(fileno=3)

    def say(message):
        control.sendall(json.dumps(message).encode() + b"\n")

    def traces():
        # What a call could leave behind for the next one.
        kinds = [getattr(resource, it) for it in sorted(dir(resource)) if it.startswith("RLIMIT_")]
        limits = [resource.getrlimit(it) for it in kinds]
        processes = [it for it in os.listdir("/proc") if it.isdigit()]
        scratch = [sorted(os.listdir(it)) for it in ("/tmp", "/dev/shm")]
        return limits, processes, scratch, os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)

    find_from(module, cwd)
    try:
        importlib.import_module(module)
    except BaseException:
        # A run of its own tells the caller what is wrong.
        return say({"ready": False})
    # A fork would have only one of several threads, and perhaps the locks of the others.
    if len(os.listdir("/proc/self/task")) > 1:
        return say({"ready": False})
    # PR_SET_DUMPABLE: what a call runs cannot read or change this process's memory.
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    prefixes = tuple({sys.prefix, sys.base_prefix, sys.exec_prefix})
    files = [getattr(it, "__file__", None) for it in list(sys.modules.values())]
    own = sorted({it for it in files if it and not it.startswith(prefixes)})
    before = traces()
    say({"ready": True, "files": own})
    while True:
        message, fds, _, _ = socket.recv_fds(control, 1, 6)
        if not message:
            return
        worker = os.fork()
        if worker == 0:
            # Received descriptors are above 3 and in order, so none is overwritten before its turn.
            for at, fd in enumerate(fds):
                os.dup2(fd, at)
            os.closerange(6, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            random.seed()
            if "numpy" in sys.modules:
                sys.modules["numpy"].random.seed()
            status = serve()
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:
                    pass
            os._exit(status)
        for fd in fds:
            os.close(fd)
        _, status = os.waitpid(worker, 0)
        clean = traces() == before
        say({"code": os.waitstatus_to_exitcode(status), "clean": clean})
        if not clean:
            return


if sys.argv[1:2] == ["keep"]:
    keep(sys.argv[2], sys.argv[3])
else:
    sys.exit(serve())
