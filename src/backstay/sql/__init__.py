"""What the state store and a log of our own both need of a database, whatever tables they keep in it.

queries      named queries out of .sql files
migrations   numbered schema changes with checksums
sqlite/      a file: how it is opened, brought up to date and written in chunks
"""
