"""Reference brokers that are wrong in exactly one clause: they show that the cases of the suite bite."""

from conformance.mutants.model import MUTANTS, Mutant, Patches, mutant

__all__ = ["MUTANTS", "Mutant", "Patches", "mutant"]
