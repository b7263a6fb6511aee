"""What the proposals declare agrees with the schema of the wire, and with the registers."""

import json

import pytest

from conformance.engine.capabilities import CAPABILITIES
from conformance.notebooks.build import HOME as NOTEBOOKS
from refimpl.proposals import PROPOSALS
from refimpl.wire.pulsar_api_pb2 import BaseCommand, FeatureFlags

NUMBERS = BaseCommand.Type.items()
COMMANDS = [pytest.param(command, id=command.name) for proposal in PROPOSALS for command in proposal.commands]


def field_of(name):
    return BaseCommand.DESCRIPTOR.fields_by_name[name]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_the_number_of_its_type_and_of_its_field(command):
    names = [name for name, number in NUMBERS if number == command.number]
    assert [name.replace("_", "").lower() for name in names] == [command.name.lower()]
    assert field_of(command.name).number == command.number


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_names_exists(command):
    assert [name for name in command.answers if name not in BaseCommand.DESCRIPTOR.fields_by_name] == []
    if command.addressed_by:
        assert command.addressed_by in field_of(command.name).message_type.fields_by_name


def test_flags_are_fields_of_the_feature_flags():
    flags = [flag for proposal in PROPOSALS for flag in proposal.flags]
    assert [flag for flag in flags if flag not in FeatureFlags.DESCRIPTOR.fields_by_name] == []
    assert len(set(flags)) == len(flags)


def test_nothing_is_declared_twice():
    for names in (
        [proposal.register for proposal in PROPOSALS],
        [command.name for proposal in PROPOSALS for command in proposal.commands],
        [capability.name for proposal in PROPOSALS for capability in proposal.capabilities],
    ):
        assert len(set(names)) == len(names)
    assert {capability.name for proposal in PROPOSALS for capability in proposal.capabilities} < set(CAPABILITIES)


def test_each_proposal_has_a_register_and_each_register_is_of_a_proposal_or_of_the_core(suite):
    assert {register.proposal.replace("-", "") for register in suite.registers} == {"core", *(one.register for one in PROPOSALS)}


@pytest.mark.parametrize("proposal", PROPOSALS, ids=lambda proposal: proposal.register)
def test_the_first_paragraph_of_one_notebook_leads_to_the_text(proposal):
    first = [json.loads(path.read_text(encoding="utf-8"))["cells"][0] for path in NOTEBOOKS.glob("*.ipynb")]
    assert sum(f"[{proposal.name}]({proposal.address})" in "".join(cell["source"]) for cell in first) == 1
