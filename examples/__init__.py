"""Programs to read and to run.

hello         two steps, two undos: the program of the README
orders_demo   an order workflow under load that survives kill -9: ``make demo``
"""
