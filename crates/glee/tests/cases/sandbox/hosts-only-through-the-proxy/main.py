import os, urllib.request, urllib.error
def get(url):
    try:
        return urllib.request.urlopen(url, timeout=5).status
    except urllib.error.HTTPError as err:
        return [err.code, err.read().decode()]
    except OSError as err:
        return type(err).__name__
def run():
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        straight = direct.open("{{origin}}/status/200", timeout=5).status
    except OSError:
        straight = "refused"
    return {"granted": get("{{origin}}/status/200"), "other": get("http://127.0.0.1:1/"), "straight": straight}
