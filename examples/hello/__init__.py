"""Two first programs, both in the README: ``shop`` shows the promise, ``hello`` is one to begin with."""
