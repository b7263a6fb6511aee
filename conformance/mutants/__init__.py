"""Reference brokers with one fault each: they show that the input of a case tells a right broker from a wrong one."""

from conformance.mutants.model import MUTANTS, Mutant, Patches, in_place_of, mutant, on_incoming, on_outgoing, on_request, tolerating

__all__ = ["MUTANTS", "Mutant", "Patches", "in_place_of", "mutant", "on_incoming", "on_outgoing", "on_request", "tolerating"]
