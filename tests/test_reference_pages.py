"""The sections of the reference begin with classes, and their headings are no file names."""

from __future__ import annotations

from collections import defaultdict

import pytest
from docs_site.names import Entry, entries
from docs_site.pages import _sections
from docs_site.topics import TOPICS, Topic, page_of

LISTED: dict[str, list[Entry]] = defaultdict(list)
for _entry in entries():  # here, as a sample of another test names netcl.torch torch in this process
    LISTED[page_of(_entry).slug].append(_entry)


@pytest.mark.parametrize("topic", [topic for topics in TOPICS.values() for topic in topics], ids=lambda one: one.slug)
def test_sections_have_entries_and_begin_with_a_class(topic: Topic) -> None:
    sections = dict(_sections(topic, LISTED[topic.slug]))
    assert list(sections) == list(topic.sections)
    assert sum(map(len, sections.values())) == len(LISTED[topic.slug])
    for group in sections.values():
        assert group[0].kind == "class" or all(entry.kind != "class" for entry in group)


def test_headings_of_a_page_with_several_sections_are_words() -> None:
    for topic in (topic for topics in TOPICS.values() for topic in topics):
        assert len(topic.sections) == 1 or all(topic.sections)
        assert not [heading for heading in topic.sections if "_" in heading]


def test_the_page_of_the_trainer_begins_with_the_class() -> None:
    topic = next(topic for topic in TOPICS["netcl-trainer"] if topic.slug == "trainer")
    heading, group = next(_sections(topic, LISTED["trainer"]))
    assert (heading, group[0].name) == ("Trainer", "netcl.trainer.Trainer")
