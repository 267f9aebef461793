"""A few lines for repo_scan to find something in."""


def total(orders):
    # TODO: round per line, as the invoices do
    return sum(order["price"] * order["count"] for order in orders)


def discount(order):
    # TODO: ask who may see this
    return 0
