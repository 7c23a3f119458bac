"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# No timed asserts: an example may take as long as a busy machine takes to make it up and to try it.
settings.register_profile("kvgate", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kvgate")
