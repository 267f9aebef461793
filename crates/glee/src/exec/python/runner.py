# Runs a function for glee. A request comes on descriptor 3 and its answer goes to descriptor 4, so that
# whatever the function prints cannot get between. Descriptor 5 is for notes, if the function has any.
import errno, json, os, sys, traceback
from importlib import import_module

# A call by a fork pays for every page that it writes to first, as it does to whatever it uses. So all that
# is between a call and its function is made once, and plain.
DECODER, ENCODER = json.JSONDecoder(), json.JSONEncoder(allow_nan=False)
USUAL = json.dumps, json.JSONEncoder
OK = b'{"ok": true}\n'


def serve(source, sink, there=None):
    request = DECODER.raw_decode(read(source).decode())[0]
    sys.argv = [request["module"]]
    find_from(request["module"], request["cwd"])
    me = os.getpid()
    if there is not None and request["env"] != there:
        change(there, request["env"])
    status, answer = respond(request)
    if os.getpid() != me:
        # A child the function forked came back here; the answer is its parent's.
        os._exit(0)
    write(sink, answer)
    return status


def change(there, wanted):
    for name in there.keys() - wanted.keys():
        del os.environ[name]
    for name, value in wanted.items():
        if there.get(name) != value:
            os.environ[name] = value


def read(source):
    parts = []
    while part := os.read(source, 1 << 16):
        parts.append(part)
    os.close(source)
    return b"".join(parts)


def write(sink, answer):
    while answer:
        answer = answer[os.write(sink, answer) :]
    os.close(sink)


def respond(request):
    try:
        value = call(request)
        if request["return"] == "text":
            return 0, OK + ("" if value is None else str(value)).encode("utf-8", "replace")
        # A module may have its own way to write JSON.
        is_usual = (json.dumps, json.JSONEncoder) == USUAL
        text = ENCODER.encode(value) if is_usual else json.dumps(value, allow_nan=False)
        return 0, OK + text.encode()
    except BaseException as err:
        lines = traceback.format_exception(type(err), err, drop_own_frames(err.__traceback__))
        told = {"type": type(err).__name__, "message": readable(str(err)), "traceback": readable("".join(lines))}
        return SCARCE if is_scarce(err) else 1, json.dumps({"ok": False, **told}).encode() + b"\n"


# The status of a call that failed for want of something, so that a limit may be why.
SCARCE = 2


def is_scarce(err):
    killed = getattr(sys.modules.get("subprocess"), "CalledProcessError", ())
    # Whatever it came from counts as well; a chain may be a ring.
    for _ in range(20):
        if isinstance(err, MemoryError) or isinstance(err, RuntimeError) and err.args == ("can't start new thread",):
            return True
        if isinstance(err, OSError) and err.errno in (errno.EAGAIN, errno.ENOMEM, errno.ENOSPC):
            return True
        # Of a child, and as a shell tells it of its own.
        if isinstance(err, killed) and err.returncode in (-9, 137):
            return True
        err = err and (err.__cause__ or err.__context__)
    return False


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
    function = sys.modules.get(request["module"]) or import_module(request["module"])
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
