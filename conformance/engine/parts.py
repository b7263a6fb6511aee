"""The parts of the steps of a transcript: frames, bytes, windows of time, and what a collecting step remembers."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

FrameSpec: TypeAlias = Annotated[dict[str, dict[str, Any]], Field(min_length=1, max_length=1)]
"""One frame: the name of its field in BaseCommand, and the fields of the command."""
Seconds: TypeAlias = Annotated[float, Field(gt=0)]


RELEASES = ("2.10.5", "2.11.0", "3.0.7", "4.0.0", "4.2.4", "5.0.0-M1")
"""The Apache Pulsar releases that the suite knows."""


class Strict(BaseModel):
    """A part of a file: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Window(Strict):
    """A rule about time: seconds since a label; never scaled."""

    since: str
    min: float = 0.0
    max: float


class Soon(Strict):
    """A rule about all cases: how soon frames come that a case expects, after what they answer or announce; scales with --slow."""

    frames: Annotated[list[FrameSpec], Field(min_length=1)]
    seconds: Seconds


class BytesSpec(Strict):
    """Raw or damaged bytes, made from one of `of`, `command`, `hex`, `text`."""

    of: FrameSpec | None = Field(default=None, description="a frame, encoded as usual")
    payload: dict[str, Any] | None = None
    command: str | None = Field(default=None, description="bytes of a BaseCommand in hexadecimal; sizes are put in front")
    hex: str | None = None
    text: str | None = None
    append: str | None = Field(default=None, description="bytes after the command, inside the frame")
    total_size: int | None = Field(default=None, description="written in place of the right one")
    command_size: int | None = Field(default=None, description="written in place of the right one")
    pad_to_size: int | None = Field(default=None, description="zero bytes after the command until the whole frame has this size")
    truncate: int | None = Field(default=None, description="keep the first bytes only")
    flip: int | None = Field(default=None, description="invert the byte at this offset")
    split: bool = Field(default=False, description="write one byte at a time")

    @model_validator(mode="after")
    def _one_source(self) -> BytesSpec:
        given = [name for name in ("of", "command", "hex", "text") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"bytes are made from one of: of, command, hex, text (given: {', '.join(given) or 'none'})")
        return self


class Fold(Strict):
    """Two fields of a frame that say how a set has changed."""

    remove: str = Field(description="path of the field whose values leave the set, first")
    add: str = Field(description="path of the field whose values come into it, then")


class CollectSpec(Strict):
    """Takes frames while they fit and remembers what they carry."""

    frame: FrameSpec
    into: dict[str, str] = Field(default={}, description="variable: field path whose values are gathered into a list")
    fold: dict[str, Fold] = Field(default={}, description="variable, a list without repetition: how each frame changes it")
    each: dict[str, Any] | None = Field(default=None, description="pattern for the command, with the variables as they are after it")
    until: Annotated[dict[str, Any], Field(min_length=1)] = Field(description="variable: pattern; complete when all fit")

    @model_validator(mode="after")
    def _remembers(self) -> CollectSpec:
        unknown = set(self.until) - {*self.into, *self.fold}
        if unknown or set(self.into) & set(self.fold):
            raise ValueError(f"each variable of until is gathered by into or by fold (not: {', '.join(sorted(unknown)) or 'by both'})")
        return self
