"""The generated code is what the schema gives, byte for byte."""

import subprocess
import sys
from pathlib import Path

import pytest

import refimpl.wire
from refimpl.wire import pulsar_api_pb2 as pb

ROOT = Path(__file__).parents[2]
WIRE = Path(refimpl.wire.__file__).parent


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    out = tmp_path_factory.mktemp("generated")
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-Iproto", f"--python_out={out}", f"--pyi_out={out}", "proto/pulsar_api.proto"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return out


@pytest.mark.parametrize("name", ["pulsar_api_pb2.py", "pulsar_api_pb2.pyi"])
def test_committed_code_is_current(generated, name):
    assert (WIRE / name).read_bytes() == (generated / name).read_bytes()


def test_generated_code_asks_for_no_runtime_version():
    assert "runtime_version" not in (WIRE / "pulsar_api_pb2.py").read_text()


def test_package_clashes_with_no_other_copy_of_the_schema():
    assert pb.BaseCommand.DESCRIPTOR.full_name == "pulsar_conformance.proto.BaseCommand"
