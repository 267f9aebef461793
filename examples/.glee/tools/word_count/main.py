from collections import Counter


def count(text, top):
    words = text.lower().split()
    return {"words": len(words), "top": [word for word, _ in Counter(words).most_common(top)]}
