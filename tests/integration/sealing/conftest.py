"""As for other jobs."""

from tests.integration.jobs.conftest import app, run_jobs, service

__all__ = ["app", "run_jobs", "service"]
