"""What GitHub demands of workflows and actions, and a builder of a Containerfile, as far as it can be told from the text.

Each function returns problems, in words; none: nothing is wrong.
"""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
NAME = re.compile(r"(?<![\w.'-])([a-z]\w*)((?:\.[\w-]+)+)")
CONTEXTS = {"env", "github", "inputs", "job", "matrix", "needs", "runner", "secrets", "steps", "strategy", "vars"}
IN_ACTION = CONTEXTS - {"needs", "secrets", "vars"}
PERMISSIONS = {"actions", "checks", "contents", "id-token", "issues", "packages", "pages", "pull-requests", "statuses"}
OF_WORKFLOW = {"name", "run-name", "on", "permissions", "env", "defaults", "concurrency", "jobs"}
OF_JOB = {
    *("name", "permissions", "needs", "if", "runs-on", "environment", "concurrency", "outputs", "env", "defaults"),
    *("steps", "timeout-minutes", "strategy", "continue-on-error", "container", "services"),
}
OF_STEP = {"id", "if", "name", "uses", "run", "working-directory", "shell", "with", "env", "continue-on-error", "timeout-minutes"}
OF_ACTION = {"name", "author", "description", "inputs", "outputs", "runs", "branding"}
INSTRUCTIONS = {
    *("ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "RUN", "SHELL", "STOPSIGNAL"),
    *("USER", "VOLUME", "WORKDIR"),
}

Given = Mapping[Any, Any]


def workflow_problems(flow: Given) -> Iterator[str]:
    """Check a workflow; YAML 1.1 reads its key `on` as true."""
    keys = {"on" if key is True else key for key in flow}
    yield from (f"a workflow has no {key}" for key in sorted(keys - OF_WORKFLOW))
    yield from (f"the workflow lacks {key}" for key in sorted({"on", "jobs"} - keys))
    for name, access in flow.get("permissions", {}).items():
        if name not in PERMISSIONS or access not in ("read", "write", "none"):
            yield f"there is no permission {name}: {access}"
    for name, job in flow.get("jobs", {}).items():
        yield from (f"{name}: a job has no {key}" for key in sorted(job.keys() - OF_JOB))
        yield from (f"{name}: the job lacks {key}" for key in ("runs-on", "steps") if key not in job)
        yield from (f"{name}: {problem}" for problem in step_problems(job.get("steps", []), CONTEXTS, {}))


def action_problems(action: Given) -> Iterator[str]:
    """Check an action that is made of steps."""
    yield from (f"an action has no {key}" for key in sorted(action.keys() - OF_ACTION))
    yield from (f"the action lacks {key}" for key in ("name", "description", "runs") if key not in action)
    inputs = action.get("inputs", {})
    yield from (f"input {name} has no description" for name, one in inputs.items() if not one.get("description"))
    yield from (f"input {name} is required and has a default" for name, one in inputs.items() if one.get("required") and "default" in one)
    if action["runs"].get("using") != "composite":
        yield "only steps are known here"
    steps = action["runs"].get("steps", [])
    yield from (
        f"step {number}: a script of an action names its shell" for number, one in enumerate(steps) if "run" in one and "shell" not in one
    )
    yield from step_problems(steps, IN_ACTION, inputs)
    outputs = " ".join(one["value"] for one in action.get("outputs", {}).values())
    yield from expression_problems(outputs, IN_ACTION, inputs, [one["id"] for one in steps if "id" in one])


def step_problems(steps: Sequence[Given], contexts: set[str], inputs: Given) -> Iterator[str]:
    """Check steps: their keys, ids, scripts and expressions."""
    ids: list[str] = []
    for number, step in enumerate(steps):
        yield from (f"step {number}: a step has no {key}" for key in sorted(step.keys() - OF_STEP))
        if ("uses" in step) == ("run" in step):
            yield f"step {number}: a step either uses an action or runs a script"
        if "uses" in step and not re.fullmatch(r"[\w.-]+/[\w./-]+@[\w./-]+", EXPRESSION.sub("x", step["uses"])):
            yield f"step {number}: an action is named OWNER/NAME@VERSION"
        if step.get("id") in ids:
            yield f"step {number}: its id is taken"
        yield from (f"step {number}: {one}" for one in expression_problems(json.dumps(step), contexts, inputs, ids))
        if "run" in step:
            said = subprocess.run(["bash", "-n"], input=EXPRESSION.sub("x", step["run"]), capture_output=True, text=True, check=False)
            yield from (f"step {number}: {line}" for line in said.stderr.splitlines())
        ids += [step["id"]] if "id" in step else []


def expression_problems(text: str, contexts: set[str], inputs: Given, ids: Sequence[str]) -> Iterator[str]:
    """Check that expressions name what there is: contexts, inputs, and steps that come before."""
    for expression in EXPRESSION.findall(text):
        for context, rest in NAME.findall(expression):
            first = rest.split(".")[1]
            if context not in contexts:
                yield f"{context} is not to be had here"
            elif context == "inputs" and first not in inputs:
                yield f"there is no input {first}"
            elif context == "steps" and first not in ids:
                yield f"no step {first} comes before"


def container_problems(text: str, folder: Path) -> Iterator[str]:
    """Check a Containerfile: instructions, stages, what is copied, and that it does not run as root."""
    lines = [line for line in re.sub(r"\\\n", " ", text).splitlines() if line.strip() and not line.startswith("#")]
    stages: list[str] = []
    user = "root"
    if not lines or not lines[0].startswith("FROM "):
        yield "it does not begin with FROM"
    for line in lines:
        name, _, rest = line.partition(" ")
        words = [] if rest.startswith("[") else shlex.split(rest)
        if name not in INSTRUCTIONS:
            yield f"there is no instruction {name}"
        elif name == "FROM":
            user, image = "root", words[0]
            if image not in stages and not re.fullmatch(r"[\w.-]+(/[\w.-]+)+:[\w.-]+", image):
                yield f"{image} is not named in full, with a tag"
            stages += words[2:] if words[1:2] == ["AS"] else []
        elif name == "COPY":
            flags = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--"))
            sources = [word for word in words if not word.startswith("--")][:-1]
            if "from" in flags and flags["from"] not in stages:
                yield f"there is no stage {flags['from']}"
            if "from" not in flags:
                yield from (f"there is no {source}" for source in sources if not (folder / source).exists())
        elif name == "USER":
            user = words[0]
        elif name == "RUN" and "pip install" in line and "--no-cache-dir" not in line:
            yield "pip leaves its cache in the image"
        elif name in ("ENTRYPOINT", "CMD"):
            if not rest.startswith("["):
                yield f"{name} runs in a shell, which signals do not get through"
            else:
                json.loads(rest)
    if user in ("root", "0"):
        yield "it runs as root"
