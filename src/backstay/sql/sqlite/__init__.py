"""An SQLite file, whatever it keeps.

connection   how a connection is opened, and what its errors mean
schema       brings a file's schema up to date
chunks       many rows with few statements
readers      the threads that read beside the one that writes
others       whether another process wrote
backup       copies of files that others write to
"""
