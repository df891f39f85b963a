"""Key tables, tested without released weights."""

import pytest
import torch

from mmeffvit.models import families
from mmeffvit.models.checkpoints import CheckpointError, rename
from mmeffvit.models.checkpoints.rename import recognize
from tests.models.checkpoints.spelling import official_keys
from tests.models.declared import DECLARED
from tests.variants import sampled

FAMILIES = {  # by the beginning of their names in timm
    known.timm: (families()[name], known) for name, known in DECLARED.items() if known.timm
}
CASES = [(family, arch) for family, (cls, _) in FAMILIES.items() for arch in cls.variants]
FIRST = [(family, next(iter(cls.variants))) for family, (cls, _) in FAMILIES.items()]
CLASSIFIERS = {'norm', 'head', 'head_dist', 'dist_head', 'classifier'}


def theirs(timm, family: str, arch: str) -> dict[str, torch.Tensor]:
    """Keys and shapes of timm's model."""
    with torch.device('meta'):
        return timm.create_model(FAMILIES[family][1].timm_name(arch)).state_dict()


def ours(family: str, arch: str) -> dict[str, torch.Tensor]:
    with torch.device('meta'):
        state = FAMILIES[family][0](arch).state_dict()
    return {key: value for key, value in state.items() if not key.startswith('output_norms')}


def layout(family: str, name: str):
    if (family, name) == ('deit', 'timm'):
        name = 'official'  # timm has kept the keys
    return next(entry for entry in FAMILIES[family][0].layouts if entry.name == name)


def dense(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(side for side in tensor.shape if side != 1)


@pytest.mark.parametrize(('family', 'arch'), sampled(CASES, FIRST))
def test_official_to_ours_and_back_is_a_bijection_of_keys_and_shapes(timm, family, arch):
    state = theirs(timm, family, arch)
    official = {spelled: state[key] for key, spelled in official_keys(family, state).items()}
    assert len(official) == FAMILIES[family][1].num_official_tensors[arch]
    renamed, dropped = rename(official, layout(family, 'official').table)
    target = ours(family, arch)
    assert sorted(renamed.values()) == sorted(target)
    assert {key.split('.')[0] for key in dropped} <= CLASSIFIERS
    back = {new: old for old, new in renamed.items()}
    assert {back[key]: dense(value) for key, value in target.items()} == {
        key: dense(value) for key, value in official.items() if key not in dropped
    }
    # timm's file of the same weights puts every tensor in the same place
    from_timm, _ = rename(state, layout(family, 'timm').table)
    spelled = official_keys(family, state)
    assert from_timm == {key: renamed[spelled[key]] for key in from_timm}


@pytest.mark.parametrize('family', FAMILIES)
def test_markers_tell_the_layouts_apart(timm, family):
    cls, _ = FAMILIES[family]
    arch = next(iter(cls.variants))
    state = theirs(timm, family, arch)
    keys = {
        'official': list(official_keys(family, state).values()),
        'timm': list(state),
        'mmeffvit': list(ours(family, arch)),
    }
    for name, spelled in keys.items():
        expected = [layout(family, name).name]
        assert [entry.name for entry in cls.layouts if recognize(spelled, [entry])] == expected
        # and no other family takes the file for its own
        for other, _ in FAMILIES.values():
            if other is not cls and name == 'timm':
                assert recognize(spelled, other.layouts) is None


def test_two_keys_may_not_become_one():
    with pytest.raises(CheckpointError, match=r"'x\.bias'"):
        rename(['a.bias', 'b.bias'], ((r'^[ab]\.', 'x.'),))
