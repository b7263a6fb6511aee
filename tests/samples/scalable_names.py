"""Names of scalable topics and of their segments in the usual namespace."""

NS = "public/default"


def topic(name: object) -> str:
    return f"topic://{NS}/{name}"


def segment(name: object, part: str = "0000-ffff-0") -> str:
    return f"segment://{NS}/{name}/{part}"
