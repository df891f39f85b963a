"""Everything that our code creates is on the device of the model."""

from copy import deepcopy

import pytest
import torch
from mmengine.structures import BaseDataElement
from torch import Tensor, nn

from mmeffvit.analysis.attention import Canvas, record_attention
from mmeffvit.deploy.compare import plain_outputs
from mmeffvit.deploy.fusion import fuse
from mmeffvit.deploy.graphs import make_graph
from mmeffvit.models import families
from tests.configs.models import batch_of, build_as_trained, load, train_step
from tests.deploy import models as tiny_models
from tests.gpu.conftest import Device
from tests.gpu.stand_in import stand_in
from tests.learning.cases import CASES
from tests.models.parity import randomized
from tests.variants import sampled

HEADS = [case.config_name for case in CASES]
FEW = ('ssdlite_mobilevitv2_050', 'segformer_swiftformer_xs_ade20k')
IMAGES = (1, 3, 64, 96)
TOLERANCE = dict(rtol=2e-3, atol=2e-3)  # of a GPU, which sums in another order


def without_dropout(model: nn.Module) -> nn.Module:
    """Dropout is drawn on the device: on a GPU, other numbers than on the CPU."""
    for module in model.modules():
        for name in ('p', 'drop_prob'):
            if 'Drop' in type(module).__name__ and hasattr(module, name):
                setattr(module, name, 0.0)
    return model


def test_a_tensor_that_is_on_the_cpu_is_found():
    with stand_in() as device:
        x = torch.ones(3, device=device)
        assert (x + 1).sum().item() == 6
        assert (x[torch.tensor([0, 1])] + torch.tensor(1.0)).tolist() == [2, 2]
        for wrong in (lambda: x + torch.ones(3), lambda: torch.ones(3)[x.long()]):
            with pytest.raises(RuntimeError, match=r'tensors of \(3,\) are on the CPU'):
                wrong()
        with pytest.raises((RuntimeError, TypeError)):
            x.numpy()


def train_and_predict(
    model: nn.Module, batch: dict, device: torch.device
) -> tuple[Tensor, list[BaseDataElement]]:
    """The loss of a training step and the predictions after it, on the CPU."""
    torch.manual_seed(0)  # of the sampled boxes
    model = deepcopy(model).to(device)
    loss = train_step(model, deepcopy(batch))
    assert all(p.device == loss.device for p in model.parameters())
    with torch.no_grad():
        found = model.eval().test_step(deepcopy(batch))
    return loss.cpu(), [sample.cpu() for sample in found]


@pytest.mark.slow
@pytest.mark.parametrize('name', sampled(HEADS, FEW))
def test_a_head_trains_and_predicts_as_on_the_cpu(name: str, device: Device):
    config = load(name)
    model = without_dropout(build_as_trained(config))
    batch = batch_of(model, config)
    loss, samples = train_and_predict(model, batch, torch.device('cpu'))
    with device() as place:
        found_loss, found = train_and_predict(model, batch, place)
    if place.type == 'cuda':
        torch.testing.assert_close(found_loss, loss, **TOLERANCE)
        return  # of an untrained model, the order of predictions is up to rounding
    torch.testing.assert_close(found_loss, loss)
    for one, other in zip(samples, found, strict=True):
        for key, value in plain_outputs(one).items():
            torch.testing.assert_close(
                torch.as_tensor(plain_outputs(other)[key]), torch.as_tensor(value)
            )


@pytest.mark.parametrize('family', families())
def test_backbones_their_attention_and_fused_ones_run_as_on_the_cpu(family: str, device: Device):
    cls = families()[family]
    backbone = randomized(cls(next(iter(cls.variants)))).eval()
    found = []
    with device() as place:
        for where in (torch.device('cpu'), place):
            model = deepcopy(backbone).to(where)
            images = torch.linspace(-1, 1, torch.Size(IMAGES).numel()).view(IMAGES).to(where)
            with torch.no_grad(), record_attention(model, Canvas(*IMAGES[2:], (40, 20))) as maps:
                features = [*model(images), *fuse(model)(images)]
            maps = [x for reading in maps.values() for x in reading.maps.values()]
            found.append([x.cpu() for x in (*features, *maps)])
    for here, there in zip(*found, strict=True):
        torch.testing.assert_close(there, here, **TOLERANCE)


@pytest.mark.parametrize('name', tiny_models.OPTIONS)
def test_the_graph_of_an_export_runs_as_on_the_cpu(name: str, device: Device):
    graph = make_graph(tiny_models.tiny(name)).eval()
    images = torch.tensor(tiny_models.smooth_image((96, 128), 2))
    with torch.no_grad():
        expected = graph(images)
        with device() as place:
            found = [value.cpu() for value in deepcopy(graph).to(place)(images.to(place))]
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-3, atol=2e-2)  # of coordinates, in pixels


def test_a_classifier_with_a_teacher_trains_as_on_the_cpu(device: Device):
    from tests.models.classification import models as classifiers  # it needs mmpretrain

    model = without_dropout(classifiers.build(classifiers.tiny_student()))
    model.init_weights()
    found = []
    with device() as place:
        for where in (torch.device('cpu'), place):
            student = deepcopy(model).to(where)
            images = torch.linspace(0, 255, 2 * 3 * 64 * 64).view(2, 3, 64, 64)
            batch = dict(inputs=images, data_samples=classifiers.labeled(0, 2))
            found.append(train_step(student, batch).cpu())
    torch.testing.assert_close(found[1], found[0], **TOLERANCE)
