"""The export graph of classifiers, from an image to a score for every class."""

from torch import Tensor, nn

from .base import Graph, Preprocessing


class ClassifierGraph(Graph):
    """An ``ImageClassifier`` of mmpretrain whose head returns one score per class.

    Args:
        model: The classifier.

    Shape:
        images (B, 3, H, W) -> scores (B, classes), which add up to 1.
    """

    task = 'classification'
    output_names = ('scores',)

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model, Preprocessing.of(model.data_preprocessor))

    def results(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        logits = self.network.head(self.network.extract_feat(x))
        return (logits.softmax(dim=1),)
