def run():
    return "zeile 1\nzeile 2 ü"
