"""Measurements of the memory, run from a checkout: `make bench-context` and `make bench`.

They print figures and refuse nothing: what must hold is in tests/, where no clock decides.
"""
