"""A bare group commit: the same rows for five steps, without any engine.

Integer keys, no fencing, no claims, no journal: a coroutine per task awaits the commit of each of its twelve
row writes, and one committer writes whatever gathered meanwhile as one transaction, fsync on. What the
engine costs is the distance to this.
"""
