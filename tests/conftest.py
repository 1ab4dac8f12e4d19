"""What holds for all tests: on a busy machine everything takes longer, and that is no failure."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("gpuprobe", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpuprobe")
