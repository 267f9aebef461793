# Runs one function for glee. The request comes on descriptor 3, the answer goes to descriptor 4, so
# that whatever the function prints cannot get between.
import json, os, sys, traceback


def main():
    with os.fdopen(3, "rb") as stream:
        request = json.load(stream)
    answer = os.fdopen(4, "wb")
    sys.argv = [request["module"]]
    sys.path.insert(0, request["cwd"])
    me = os.getpid()
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
    sys.exit(0 if head["ok"] else 1)


class Own:
    # Finds the module itself where its directory cannot be listed, as Python's own finder does: the
    # sandbox shows the tool its module, but not what else lies beside it.
    def __init__(self, request):
        self.module, self.cwd = request["module"], request["cwd"]

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

    sys.meta_path.append(Own(request))
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


def readable(text):
    # File names may hold halves of characters, which JSON cannot.
    return text.encode("utf-8", "backslashreplace").decode()


def drop_own_frames(tb):
    start = tb
    while tb is not None and tb.tb_frame.f_code.co_filename == "<string>":
        tb = tb.tb_next
    return tb or start


main()
