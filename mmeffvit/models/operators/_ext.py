"""The file that an installation adds to mmcv's folder, as ``mmcv._ext``.

It is a package with the folder ``mmeffvit/models/operators``, so that ``mmeffvit`` itself is not
imported. A compiled library ``_ext`` in the same folder takes precedence over this file.
"""

from importlib.util import find_spec

__path__ = [f'{path}/models/operators' for path in find_spec('mmeffvit').submodule_search_locations]

from mmcv._ext.functions import __getattr__ as __getattr__
