"""The action, the workflows and the Containerfile are what GitHub and a builder take, as far as the text tells."""

import re

import pytest
import yaml

from conformance.site.home import filled
from conformance.site.sources import REPOSITORY
from tests.docs.workflows import action_problems, container_problems, workflow_problems

ACTION = (REPOSITORY / "action.yml").read_text()
CONTAINER = (REPOSITORY / "Containerfile").read_text()
PAGE = filled((REPOSITORY / "docs" / "continuous-integration.md").read_text(), {"repository": "o/r"})
FLOWS = {
    **{path.name: path.read_text() for path in sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))},
    **dict(zip(("a broker", "a cluster", "a client"), re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL), strict=True)),
}


@pytest.mark.parametrize("name", FLOWS)
def test_workflows_are_valid(name):
    assert list(workflow_problems(yaml.safe_load(FLOWS[name]))) == []


def test_the_action_is_valid():
    assert list(action_problems(yaml.safe_load(ACTION))) == []


def test_the_containerfile_is_valid():
    assert list(container_problems(CONTAINER, REPOSITORY)) == []


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("runs-on:", "run-on:", "a job has no run-on"),
        ("contents: write", "contents: all", "there is no permission contents: all"),
        ("uses: actions/checkout@v4", "uses: actions/checkout", "an action is named OWNER/NAME@VERSION"),
        ("- run: make", "- runs: make", "a step has no runs"),
        ("github.ref_name", "git.ref_name", "git is not to be had here"),
        ("= tag; then set", "= tag; set", "syntax error"),
    ],
)
def test_a_mistake_in_a_workflow_is_found(right, wrong, problem):
    text = FLOWS["site.yml"]
    assert right in text
    assert [one for one in workflow_problems(yaml.safe_load(text.replace(right, wrong, 1))) if problem in one]


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("      shell: bash\n      run: |\n        python", "      run: |\n        python", "names its shell"),
        ("inputs.fail-on", "inputs.fails-on", "there is no input fails-on"),
        ("steps.compare.outputs", "steps.compared.outputs", "no step compared comes before"),
        ("      id: compare", "      id: judge", "its id is taken"),
        ("inputs.report }}\n      run", "secrets.report }}\n      run", "secrets is not to be had here"),
    ],
)
def test_a_mistake_in_the_action_is_found(right, wrong, problem):
    assert right in ACTION
    assert [one for one in action_problems(yaml.safe_load(ACTION.replace(right, wrong, 1))) if problem in one]


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("--from=build", "--from=built", "there is no stage built"),
        ("COPY requirements.txt", "COPY requirement.txt", "there is no requirement.txt"),
        ("USER 1000", "", "it runs as root"),
        ("pip install --no-cache-dir", "pip install", "pip leaves its cache"),
        ('ENTRYPOINT ["pulsar-conformance"]', "ENTRYPOINT pulsar-conformance", "runs in a shell"),
        ("docker.io/library/python:3.11-slim AS", "python AS", "is not named in full"),
        ("WORKDIR", "WORK", "there is no instruction WORK"),
    ],
)
def test_a_mistake_in_the_containerfile_is_found(right, wrong, problem):
    assert right in CONTAINER
    assert [one for one in container_problems(CONTAINER.replace(right, wrong), REPOSITORY) if problem in one]
