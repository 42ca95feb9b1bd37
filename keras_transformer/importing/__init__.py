"""Import of trained models of other toolkits as model folders of this package.

`convert` writes the model folder; `inspect` says what it would hold. `families` has a
module for each family of models, `reading` the files of weights. Nothing of a folder is
ever run, and weights go over one tensor at a time.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from keras_transformer.importing.conversion import convert as convert
    from keras_transformer.importing.conversion import inspect as inspect
    from keras_transformer.importing.report import ImportReport as ImportReport

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={"conversion": ["convert", "inspect"], "report": ["ImportReport"]},
)
