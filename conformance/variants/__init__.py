"""Right brokers that differ from the reference in what the texts leave free: they show that no case demands too much."""

from conformance.variants.model import VARIANTS, Variant, variant

__all__ = ["VARIANTS", "Variant", "variant"]
