"""Synthetic topics: names of all classes, and properties.

    spark.read.format("synthetic_topics").option("rows", 1_000_000).option("mix", "adversarial").load()

Tenants, namespaces, words and the values of properties follow Zipf's law; the classes (`kind`) and their shares stand in `topic_forms`.
Names are unique. A corpus of fewer rows is the beginning of one of more rows with the same other options.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from conformance.corpus.columns import TOPIC_COLUMNS, ddl
from conformance.corpus.sources.blocks import BLOCK, COMMON, BlockSource, generator
from conformance.corpus.sources.options import Option
from conformance.corpus.sources.topic_forms import FORMS, GROUP, KINDS, MIXES, PROPERTIES, WORDS
from conformance.corpus.sources.zipf import draw, zipf_borders

_STREAM = 1
_KIND_OF_FORM = np.array([KINDS.index(form.kind) for form in FORMS])
_FIRST_FORM = np.array([int(np.argmax(kind == _KIND_OF_FORM)) for kind in range(len(KINDS))])
_FORMS = np.bincount(_KIND_OF_FORM, minlength=len(KINDS))
_HAS_WORD = np.array([form.has_word for form in FORMS])
_PARTITION = KINDS.index("partition")


class SyntheticTopics(BlockSource):
    """The data source `synthetic_topics`."""

    OPTIONS = (
        *COMMON,
        Option("tenants", 20, "how many tenants", least=1),
        Option("namespaces", 10, "how many namespaces each tenant has", least=1),
        Option("zipf", 1.1, "exponent of the shares of tenants, namespaces, words and values; 0: all are equally frequent", least=0),
        Option("mix", "usual", "the shares of the classes of names", choices=tuple(MIXES)),
    )

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "synthetic_topics"

    def schema(self) -> str:
        """Return the columns."""
        return ddl(TOPIC_COLUMNS)

    def block(self, number: int, rows: int) -> pa.RecordBatch:
        """Draw a block; one with fewer rows is the beginning of the full one."""
        chance = generator(self.chosen["seed"], _STREAM, number)
        ids = np.arange(number * BLOCK, (number + 1) * BLOCK, dtype=np.int64)
        kinds = np.repeat(draw(chance, self._tables.kinds, BLOCK // GROUP), GROUP)
        topics = self._topics(chance, ids, kinds)
        properties = self._properties(chance)
        columns = [pa.array(ids), topics, _taken(pa.array(KINDS), kinds), properties]
        return pa.RecordBatch.from_arrays(columns, names=list(TOPIC_COLUMNS)).slice(0, rows)

    def _topics(self, chance: np.random.Generator, ids: npt.NDArray[np.int64], kinds: npt.NDArray[np.int64]) -> pa.Array:
        tables = self._tables
        is_partition = kinds == _PARTITION
        forms = _FIRST_FORM[kinds] + np.where(is_partition, ids % GROUP, (chance.random(BLOCK) * _FORMS[kinds]).astype(np.int64))
        places = draw(chance, tables.tenants, BLOCK) * self.chosen["namespaces"] + draw(chance, tables.namespaces, BLOCK)
        words = draw(chance, tables.words, BLOCK)
        of_group = np.arange(BLOCK) // GROUP * GROUP  # partitions of one topic share what the first of them drew
        places, words = (np.where(is_partition, drawn[of_group], drawn) for drawn in (places, words))
        namespace = pc.coalesce(_taken(tables.form_namespaces, forms), _taken(tables.paths, places))
        word = _taken(tables.word_texts, np.where(_HAS_WORD[forms], words, len(WORDS)))
        numbers = pc.cast(pa.array(np.where(is_partition, ids // GROUP, ids)), pa.string())
        parts = [_taken(texts, forms) for texts in (tables.domains, tables.before, tables.joints, tables.behind)]
        domain, before, joint, behind = parts
        return pc.binary_join_element_wise(domain, namespace, before, word, joint, numbers, behind, "")

    def _properties(self, chance: np.random.Generator) -> pa.MapArray:
        tables = self._tables
        present = np.column_stack([chance.random(BLOCK) < one.share for one in PROPERTIES])
        values = np.column_stack([draw(chance, borders, BLOCK) for borders in tables.values]) + tables.first_values
        keys = np.broadcast_to(np.arange(len(PROPERTIES)), present.shape)
        offsets = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int32)
        return pa.MapArray.from_arrays(pa.array(offsets), _taken(tables.keys, keys[present]), _taken(tables.value_texts, values[present]))

    @cached_property
    def _tables(self) -> _Tables:
        return _Tables(self.chosen)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_tables"}


class _Tables:
    """The tables that all blocks of one source share."""

    def __init__(self, chosen: Mapping[str, int | float | str]) -> None:
        exponent, tenants, namespaces = float(chosen["zipf"]), int(chosen["tenants"]), int(chosen["namespaces"])
        self.kinds = np.cumsum(MIXES[str(chosen["mix"])])
        self.kinds /= self.kinds[-1]
        self.tenants = zipf_borders(tenants, exponent)
        self.namespaces = zipf_borders(namespaces, exponent)
        self.words = zipf_borders(len(WORDS), exponent)
        self.values = [zipf_borders(len(one.values), exponent) for one in PROPERTIES]
        self.first_values = np.array([0, *accumulate(len(one.values) for one in PROPERTIES)][:-1])
        self.paths = pa.array([f"tenant-{tenant}/ns-{namespace}/" for tenant in range(tenants) for namespace in range(namespaces)])
        self.domains = pa.array([f"{form.domain}://" for form in FORMS])
        self.form_namespaces = pa.array([None if form.namespace is None else f"{form.namespace}/" for form in FORMS], pa.string())
        self.before = pa.array([form.before for form in FORMS])
        self.joints = pa.array([form.joint for form in FORMS])
        self.behind = pa.array([form.behind for form in FORMS])
        self.word_texts = pa.array([*WORDS, ""])
        self.keys = pa.array([one.key for one in PROPERTIES])
        self.value_texts = pa.array([value for one in PROPERTIES for value in one.values])


def _taken(texts: pa.Array, indexes: npt.NDArray[np.int64]) -> pa.Array:
    return pc.take(texts, pa.array(indexes))
