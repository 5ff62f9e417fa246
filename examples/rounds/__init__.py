"""A job that has the supervisor make its rounds."""
