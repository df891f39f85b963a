"""mmcv's operators without a compiler.

mmcv looks up its operators in its module ``mmcv._ext``, a compiled library that the wheel
``mmcv-lite`` lacks. Installing this package adds a file ``_ext.py`` to mmcv's folder, which serves
the functions of this one. Where mmcv is compiled, Python prefers the library.

The functions have the names and the arguments of the compiled ones: they write results into
tensors of the caller. Half precision is computed in float32. They import no other module of this
package, so that using mmdet without mmeffvit registers no models.
"""
