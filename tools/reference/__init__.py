"""The pages in ``docs/reference``, each from what it describes.

python   the public names of the package: signatures and docstrings
http     the OpenAPI document, as a server gives it
cli      the tree of commands

``python -m tools.reference`` writes them. With ``--check`` nothing is written, and the exit status is 1
when one is out of date.
"""
