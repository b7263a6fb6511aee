"""The targets: the reference, any endpoint, a target described in a file, and a real Apache Pulsar by version."""

from conformance.targets.admin import AdminClient, AdminResult, AdminUnreachable
from conformance.targets.apache_pulsar import ApachePulsar
from conformance.targets.attached import AttachedTarget
from conformance.targets.connect_probe import connect_answer
from conformance.targets.jars import RELEASES, Release
from conformance.targets.model import (
    Endpoint,
    Progress,
    SettingsRefused,
    Target,
    TargetError,
    WrongUsage,
    as_settings,
    redacted,
)
from conformance.targets.operations import OPERATIONS, Operation, check_arguments
from conformance.targets.parse import parse_target
from conformance.targets.reference import InProcessTarget, ReferenceTarget
from conformance.targets.started import StartedTarget
from conformance.targets.target_file import TargetFile, read_target_file

__all__ = [
    "OPERATIONS",
    "RELEASES",
    "AdminClient",
    "AdminResult",
    "AdminUnreachable",
    "ApachePulsar",
    "AttachedTarget",
    "Endpoint",
    "InProcessTarget",
    "Operation",
    "Progress",
    "ReferenceTarget",
    "Release",
    "SettingsRefused",
    "StartedTarget",
    "Target",
    "TargetError",
    "TargetFile",
    "WrongUsage",
    "as_settings",
    "check_arguments",
    "connect_answer",
    "parse_target",
    "read_target_file",
    "redacted",
]
