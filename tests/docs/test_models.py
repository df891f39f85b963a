"""The page of released models agrees with the metafile, and its names exist."""

import re

from docs.hooks.models import PAGE, tables
from docs.hooks.results import with_tables
from mmeffvit.zoo import list_models


def test_the_tables_are_those_of_the_metafile():
    # after a change of the metafile: python docs/hooks/models.py
    assert PAGE.read_text() == with_tables(PAGE.read_text(), tables())


def test_every_released_model_has_a_row_with_its_source_license_and_address():
    rows = re.findall(
        r'^\| \[?(\w+)\]?.*\| \[[\w ]+\]\(http.*\), \[.+\]\(http.*\) \|$', PAGE.read_text(), re.M
    )
    assert sorted(rows) == list_models(pretrained=True)


def test_every_name_on_the_page_is_a_released_model():
    named = re.findall(r"(?:Predictor|get_model)\('(\w+_\w+)'", PAGE.read_text())
    named += re.findall(r'tools/\w+\.py (\w+_\w+)', PAGE.read_text())
    assert len(named) > 5
    assert set(named) <= set(list_models(pretrained=True))
