"""The suites ship with the package; their assertions explain themselves like those of any test."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("backstay.testing")
