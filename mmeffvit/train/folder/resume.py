"""Options of a run on a dataset when it is resumed: more epochs, or the same as before."""

import hashlib
import json
import re
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmeffvit.config.load import load_config
from mmeffvit.data.prepare import PrepareOptions
from mmeffvit.errors import UserError
from mmeffvit.models.checkpoints import open_checkpoint
from mmeffvit.utils.files import read_json, write_file
from mmeffvit.utils.messages import logger
from mmeffvit.zoo.runs import latest_checkpoint

from .options import FinetuneOptions
from .recipe import Overrides, spelled
from .write_config import DATA, Teaching

RECORD = 'options.json'  # beside the config
LENGTHS = ('epochs', 'steps')
NEEDED = ('train_dataloader', 'epochs', 'iterations')  # in the config
POSITIONAL = ('teacher', 'checkpoint')  # arguments of distill
STEPS = ('amp', 'cfg_options')  # that the config does not have
RECORDED = {'data', 'config', 'weights', 'seed', *STEPS}.union(
    *({field.name for field in fields(own)} for own in (Overrides, PrepareOptions, Teaching))
)


def given(options: FinetuneOptions) -> dict[str, Any]:
    """The options of a run that its config, its index or its weights come from, in JSON's types."""
    # what detection found follows from the dataset
    pairs = (
        (options.overrides, Overrides()),
        (replace(options.reading, found=None), PrepareOptions()),
    )
    found = {
        name: value
        for own, default in pairs
        for name, value in vars(own).items()
        if value != getattr(default, name)
    }
    found |= dict(weights=options.weights) if options.weights != 'auto' else {}
    found |= dict(seed=options.seed) if options.seed is not None else {}
    found |= asdict(options.teaching) if options.teaching else {}
    return json.loads(json.dumps(found, default=str))


def check_unused(config: Path) -> None:
    """Reject a folder with files of others that a new run beside this config would overwrite."""
    names = (RECORD, DATA, 'index', 'result', config.name)
    taken = [path for name in names if (path := config.with_name(name)).exists()]
    before = None
    if taken and taken[0].name == RECORD:
        with suppress(UserError):
            before = read_json(taken[0])
    # of a run that was interrupted: its data and options, nothing else
    is_own = isinstance(before, dict) and 'data' in before and set(before) <= RECORDED
    if taken and not is_own:
        raise UserError(
            f'{taken[0]} is not of a training run, which would overwrite it: choose another '
            '--work-dir'
        )
    if is_own and config.is_file() and before.get('config') not in (None, digest(config)):
        raise UserError(
            f'{config} was edited, and a new run would overwrite it: continue with --resume, or '
            'choose another --work-dir'
        )


def digest(config: Path) -> str:
    return hashlib.sha256(config.read_bytes()).hexdigest()


def record(data: Path, config: Path, options: FinetuneOptions, written: str = '') -> None:
    """Write the options of a new run beside its config, with the digest of what was written."""
    content = dict(data=str(data.resolve()), **given(options))
    content |= dict(config=written) if written else {}
    content |= {k: value for k in STEPS if (value := getattr(options, k)) not in (None, {})}
    write_file(config.with_name(RECORD), json.dumps(content, indent=1))


def resumed(data: Path, config_path: Path, options: FinetuneOptions) -> FinetuneOptions:
    """The options of a resumed run; another number of epochs is written to its config.

    Raises:
        UserError: If another option differs, or fewer epochs are wanted than are done.
    """
    path, config = config_path.with_name(RECORD), load_config(config_path)
    before = read_json(path) if path.is_file() else {}
    before = before if isinstance(before, dict) else {}
    if before.get('data', str(data.resolve())) != str(data.resolve()):
        raise UserError(
            f'the run in {config_path.parent} is on {before["data"]}, not on {data}: choose '
            'another --work-dir'
        )
    if absent := [name for name in NEEDED if name not in config]:
        raise UserError(
            f'{config_path} has no {absent[0]}: it is not the config of a run on a dataset'
        )
    processes = config.get('processes', 1)
    used = dict(processes=processes, batch=config.train_dataloader.batch_size * processes)
    for name, value in given(options).items():
        if name in LENGTHS or value in (before.get(name), used.get(name)):
            continue
        was = before.get(name, used.get(name))
        option, fix = spelled(name), 'Leave it out'
        if name in POSITIONAL:
            option, fix = f'the {name}', 'Give the same'
        raise UserError(
            f'{option} is {value}, and the run in '
            f'{config_path.parent} was started with {"the default" if was is None else was}: only '
            f'--epochs can change when a run is resumed. {fix}, change it in '
            f'{config_path.name}, or choose another --work-dir'
        )
    epochs = options.overrides.epochs
    if options.overrides.steps:
        epochs = -(-options.overrides.steps // config.iterations)
    if epochs not in (None, config.epochs):
        change_epochs(config_path, config, epochs, options.resume)
    logger.info(f'{config_path.parent}: resumed with its index, as {data} was at the start')
    settings = before.get('cfg_options')
    return replace(
        options,
        seed=before.get('seed', options.seed or 0),
        amp=before.get('amp') if options.amp is None else options.amp,
        cfg_options={**(settings if isinstance(settings, dict) else {}), **options.cfg_options},
    )


def change_epochs(path: Path, config: Config, epochs: int, resume: str | None) -> None:
    """Write another number of epochs, which all other lengths depend on, to the config of a run."""
    run = path.with_name('run')
    start = latest_checkpoint(run) if resume == 'auto' else open_checkpoint(resume)
    meta = start.meta if start is not None else {}
    by_epoch = config.train_cfg.get('max_epochs') is not None
    done = meta.get('epoch', 0) if by_epoch else meta.get('iter', 0) // config.iterations
    text, count = re.subn(
        r'^epochs = \d+$', f'epochs = {epochs}', path.read_text(), flags=re.MULTILINE
    )
    if epochs < done:
        raise UserError(f'--epochs is {epochs}, but the run in {path.parent} has finished {done}')
    if count != 1:
        raise UserError(f'--epochs is {epochs}, but {path} has no line "epochs = N": add it there')
    write_file(path, text)
    logger.info(f'{epochs} epochs instead of {config.epochs}, in {path}')
