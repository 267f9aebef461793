# Runs one function for glee. The request comes on descriptor 3, the answer goes to descriptor 4, so
# that whatever the function prints cannot get between.
import json, os, sys, traceback


def main():
    with os.fdopen(3, "rb") as stream:
        request = json.load(stream)
    answer = os.fdopen(4, "wb")
    sys.argv = [request["module"]]
    sys.path.insert(0, request["cwd"])
    try:
        value = call(request)
        if request["return"] == "text":
            payload = ("" if value is None else str(value)).encode("utf-8", "replace")
        else:
            payload = json.dumps(value, allow_nan=False).encode()
        head = {"ok": True}
    except BaseException as err:
        lines = traceback.format_exception(type(err), err, drop_own_frames(err.__traceback__))
        head = {"ok": False, "type": type(err).__name__, "message": str(err), "traceback": "".join(lines)}
        payload = b""
    answer.write(json.dumps(head).encode() + b"\n" + payload)
    answer.close()
    sys.exit(0 if head["ok"] else 1)


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


main()
