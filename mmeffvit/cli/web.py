"""Write a web page that runs a model on images and the camera in the browser."""

from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory

from mmeffvit.deploy.export import ToolOptions, export_model
from mmeffvit.deploy.web.page import check_folder, write_page
from mmeffvit.errors import UserError
from mmeffvit.inference.predictor import Predictor
from mmeffvit.utils.files import check_output

from .arguments import add_shape, new_parser, output_folder
from .console import working


def make_parser() -> ArgumentParser:
    parser = new_parser(__doc__, 'web model.onnx page')
    add = parser.add_argument
    add(
        'model',
        metavar='MODEL',
        help='exported .onnx file; or work dir of a run, checkpoint, saved model, name of a model',
    )
    add('out', type=output_folder, metavar='OUT_DIR', help='output folder')
    add('--bundle', action='store_true',
        help='copy the runtime from the npm registry into the folder (default: the page loads it '
             'from a public CDN)')  # fmt: skip
    add_shape(parser, 'fixed image size, unless MODEL is exported (default: any)')
    return parser


def run(model: str, out: Path, bundle: bool, shape: tuple[int, int] | None) -> None:
    if Path(model).suffix == '.onnx':
        if shape:
            raise UserError(f'--shape is for models that are not exported yet, and {model} is')
        print(write_page(model, out, bundle=bundle))
        return
    check_folder(check_output(out, folder=True).resolve())
    stem = (Path(model).resolve() if Path(model).exists() else Path(model)).stem
    with TemporaryDirectory() as folder:
        exported = Path(folder, f'{stem}.onnx')
        with working(f'exporting {model}'):
            predictor = Predictor(model, device='cpu')
            try:
                export_model(predictor, exported, ToolOptions(shape))
            except UserError as error:  # it may name other options
                raise UserError(f'{error}; `mmeffvit export`, whose file this command takes, has '
                                'all options') from error  # fmt: skip
        print(write_page(exported, out, bundle=bundle))
