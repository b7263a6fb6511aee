"""The action does what its page says: its steps, run as a workflow runs them, on the reference."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from conformance.site.home import filled
from conformance.site.sources import REPOSITORY

ACTION = yaml.safe_load((REPOSITORY / "action.yml").read_text())
PAGE = (REPOSITORY / "docs" / "continuous-integration.md").read_text()
GOOD, OTHER = "core/handshake/connected", "pip145/update/unicode"
EXPRESSION = re.compile(r"\$\{\{ *([^ ]+) *\}\}")


@pytest.fixture
def action(tmp_path):
    """Return what runs the action with inputs, in a folder of its own: its exit code, its outputs, its summary."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python").symlink_to(sys.executable)
    command = programs / "pulsar-conformance"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m conformance.cli "$@"\n')
    command.chmod(0o755)

    def run(**inputs):
        names = {name.replace("-", "_") for name in ACTION["inputs"]}
        assert set(inputs) <= names
        values = {f"inputs.{name}": inputs.get(name.replace("-", "_"), one.get("default", "")) for name, one in ACTION["inputs"].items()}
        summary = tmp_path / "summary"
        summary.write_text("")
        for step in ACTION["runs"]["steps"]:
            if "run" not in step or step["name"] == "Install":
                continue
            output = tmp_path / "output"
            output.write_text("")
            given = {name: EXPRESSION.sub(lambda found: values.get(found[1], ""), text) for name, text in step["env"].items()}
            environment = {
                **os.environ,
                **given,
                "PATH": f"{programs}:{os.environ['PATH']}",
                "PYTHONPATH": str(REPOSITORY),
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(summary),
            }
            words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False)
            for line in output.read_text().splitlines():
                name, _, value = line.partition("=")
                values[f"steps.{step['id']}.outputs.{name}"] = value
            if done.returncode:
                return done.returncode, values, done.stderr
        return 0, values, summary.read_text()

    return run


def test_a_run_leaves_its_report_and_its_sentence(action, tmp_path):
    code, values, summary = action(target="in-process", options=f"--select {GOOD} --select '{OTHER}'", report="out")
    assert code == 0, summary
    assert values["steps.judge.outputs.exit-code"] == "0"
    assert "conformant in the selected cases" in values["steps.judge.outputs.sentence"]
    assert "### in-process" in summary
    assert "```" not in summary
    for name in re.findall(r"^\| `(\w+\.\w+)` \|", PAGE, re.MULTILINE):
        assert (tmp_path / "out" / name).is_file(), name


def test_a_run_is_compared_with_an_earlier_one(action):
    assert action(target="in-process", options=f"--select {GOOD}", report="base")[0] == 0
    code, values, summary = action(target="in-process", options=f"--select {GOOD}", compare_with="base", fail_on="new")
    assert (code, values["steps.compare.outputs.exit-code"]) == (0, "0")
    assert "```" in summary


def test_the_summary_of_a_run_that_fails_says_what_fails(action, tmp_path):
    options = f"--select {GOOD} --baseline {tmp_path / 'stale.yaml'}"
    entry = f"[{{case: {GOOD}, clause: core.handshake.connected, verdict: FAIL, reason: none}}]"
    (tmp_path / "stale.yaml").write_text(f"format: 1\ntarget: in-process\nentries: {entry}\n")
    code, _, _ = action(target="in-process", options=options)
    assert code == 4
    assert "Stale baseline entries" in (tmp_path / "summary").read_text()


@pytest.mark.parametrize("fail_on", ["failure", "new"])
def test_a_target_that_is_not_there_fails_the_build(action, fail_on):
    assert action(target="pulsar://127.0.0.1:1", options=f"--select {GOOD}", fail_on=fail_on)[0] == 3


def test_another_word_than_failure_or_new_is_told(action):
    code, _, said = action(target="in-process", options=f"--select {GOOD}", fail_on="never")
    assert (code, said) == (2, "fail-on is failure or new, not 'never'\n")


def test_every_input_and_output_stands_on_the_page():
    table = dict(re.findall(r"^\| `([a-z-]+)` \| .* \| (.*) \|$", PAGE, re.MULTILINE))
    assert table.keys() == ACTION["inputs"].keys()
    for name, one in ACTION["inputs"].items():
        default = "needed" if one.get("required") else f"`{one['default']}`" if one["default"] else "none"
        assert table[name] == default, name
    assert all(f"`{name}`" in PAGE for name in ACTION["outputs"])


def test_workflows_of_the_page_use_what_there_is():
    flows = [yaml.safe_load(filled(text, {"repository": "o/r"})) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    assert len(flows) == 3
    for flow in flows:
        steps = [step for job in flow["jobs"].values() for step in job["steps"]]
        (used,) = [step["with"] for step in steps if step.get("uses", "").startswith("o/r@")]
        assert "target" in used
        assert used.keys() <= ACTION["inputs"].keys()


@pytest.mark.parametrize("path", sorted((REPOSITORY / ".github" / "ISSUE_TEMPLATE").glob("a-*.yml")), ids=lambda path: path.stem)
def test_fields_of_a_form_have_names_of_their_own(path: Path):
    fields = yaml.safe_load(path.read_text())["body"]
    ids = [one["id"] for one in fields]
    assert len(ids) == len(set(ids))
    assert all(one["attributes"]["label"] for one in fields)
