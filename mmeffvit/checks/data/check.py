"""Find faults of a config's data before a run fails on them or trains on them."""

from mmengine.config import Config

from mmeffvit.config.build import isolated
from mmeffvit.data.faults import Report
from mmeffvit.data.files import Sample
from mmeffvit.errors import UserError

from .configured import ConfiguredDataset, build, configured_datasets
from .detection import check_coco, check_other, check_voc, is_coco, is_voc
from .segmentation import check_segmentation, is_segmentation

SPLITS = ('train', 'val', 'test')


def check_dataset(
    config: Config, splits: tuple[str, ...] = SPLITS, sample: Sample | None = None
) -> list[Report]:
    """Read all annotations of a config's datasets and open a sample of their images.

    Datasets are built by mmdet or mmseg from the config, so paths, classes and
    ``reduce_zero_label`` are those of a run. COCO annotation files are read directly, since mmdet
    silently ignores what it cannot use.

    Args:
        config: A config of mmdet or mmseg, which must be imported; it is not changed.
        splits: The splits to check, out of 'train', 'val', 'test'.
        sample: Which files to open; None opens 50 of every dataset.

    Returns:
        One report for every dataset, in the order of the splits.

    Raises:
        UserError: If there is no dataset, or one cannot be built.
    """
    configured = configured_datasets(config, splits)
    if not configured:
        raise UserError(f'{config.filename} has no dataset for {", ".join(splits)}')
    with isolated(config.default_scope):
        return [check_one(item, sample or Sample()) for item in configured]


def check_one(configured: ConfiguredDataset, sample: Sample) -> Report:
    """Check one dataset according to its format."""
    report = Report(configured.name, str(configured.settings.get('type')))
    dataset = build(configured, report)
    if dataset is None:
        return report
    folders = ' '.join(filter(None, dataset.data_prefix.values()))
    report.source += f', {dataset.ann_file or folders}'
    if is_coco(type(dataset)):
        check_coco(dataset, report, sample, with_masks=configured.with_masks)
    elif is_voc(type(dataset)):
        check_voc(dataset, report, sample)
    elif is_segmentation(dataset):
        check_segmentation(dataset, report, sample)
    else:
        check_other(dataset, report, sample)
    return report
