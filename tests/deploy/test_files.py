"""Outputs take their names when they are whole."""

import pytest

from mmeffvit.deploy.files import whole


def test_a_file_takes_its_name_with_what_belongs_to_it(tmp_path):
    out = tmp_path / 'new' / 'model.xml'
    with whole(out) as partial:
        partial.write_text('graph')
        partial.with_suffix('.bin').write_text('weights')
        assert not out.exists()
    assert out.read_text() == 'graph'
    assert sorted(path.name for path in out.parent.iterdir()) == ['model.bin', 'model.xml']


def test_a_failure_leaves_the_earlier_file_and_nothing_else(tmp_path):
    out = tmp_path / 'model.onnx'
    out.write_text('earlier')

    def fail():
        with whole(out) as partial:
            partial.write_text('half')
            raise ValueError('disagrees')

    with pytest.raises(ValueError, match='disagrees'):
        fail()
    assert out.read_text() == 'earlier'
    assert [path.name for path in tmp_path.iterdir()] == ['model.onnx']


def test_a_folder_takes_the_place_of_an_earlier_one(tmp_path):
    out = tmp_path / 'model.mlpackage'
    for content in ('first', 'second'):
        with whole(out) as partial:
            partial.mkdir()
            (partial / content).write_text(content)
    assert [path.name for path in out.iterdir()] == ['second']
