import helper
def run():
    return helper.VALUE
