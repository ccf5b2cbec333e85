"""Prices of a small shop."""


def discounted(price, percent):
    """Returns the price with `percent` of it taken off."""
    return price * percent / 100


def total(prices, percent=0):
    """Returns the sum of the prices with the same discount on each."""
    return sum(discounted(price, percent) for price in prices)
