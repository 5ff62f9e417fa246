"""The program of the README."""
