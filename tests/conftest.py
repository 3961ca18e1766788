"""Property tests are replayable, and fewer when the kernels run as plain Python."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

COMMON = {"deadline": None, "derandomize": True, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("compiled", max_examples=100, **COMMON)
settings.register_profile("plain", max_examples=15, **COMMON)
settings.load_profile("plain" if os.environ.get("NUMBA_DISABLE_JIT") == "1" else "compiled")
