"""What a method shows a network, and what it wants from it, seen in a run of its own.

The run that is measured has no hooks: `attributionlab.exact` reads a network with hooks as one whose
layers are unknown.
"""

from dataclasses import replace

from attributionlab.base import AttributionLabError
from attributionlab.methods import collect_notices
from attributionlab.verdicts.faithfulness.calls import attribute_batch
from attributionlab.verdicts.faithfulness.isolation import Apart
from attributionlab.verdicts.faithfulness.setup import Batch, Setup
from attributionlab.verdicts.faithfulness.watching import EnoughError, Watch


def shows_integer_images_only(setup: Setup, batch: Batch) -> bool:
    """Whether a method learns of a network nothing but its outputs for integer images of the valid box.

    The method explains the first image of the batch while hooks look on: whether each image that it
    shows the network consists of integers in [0, highest], whether a gradient is taken, and whether
    layers are called alone or watched by hooks of the method. Reading weights leaves no trace. False
    also if the network was shown no image at all.
    """
    watch, method = Watch(batch.images.shape[1:], setup.env.max_value), setup.method
    if isinstance(method, Apart):
        method = replace(method, watch=watch)
    else:
        method = replace(method, call=watch.around(method.call))
    setup = replace(setup, method=method)
    try:
        with collect_notices():
            attribute_batch(setup, batch.part(0, 1))
    except (AttributionLabError, EnoughError):
        if not watch.saw_more:
            raise
    return watch.passes > 0 and not watch.saw_more
