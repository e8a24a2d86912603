"""Finding the attention matrices of a transformer of any make.

Attention is what a softmax over the last dimension returns and values are multiplied with. A torch
function mode sees both, whatever module or function computes them; attention that torch computes in one
piece is taken apart first (`attributionlab.methods.attention_parts`).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from attributionlab.errors import AttributionLabError
from attributionlab.methods.attention_parts import IN_ONE_PIECE

__all__ = ["Attending", "tensors_among"]

PRODUCTS = ("bmm", "einsum", "matmul")
"""Operations that multiply attention with values."""

SAME_VALUES = (
    *("dropout", "clone", "contiguous", "to", "type", "type_as", "float", "double"),
    *("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze"),
)
"""Operations behind which attention is still attention."""


class Attending(TorchFunctionMode):
    """Notes the attention of a network that runs inside, block by block.

    Parameters
    ----------
    who : str
        For messages.
    batch : int
        Images that pass through.

    Attributes
    ----------
    maps : tuple of int, optional
        Rows and columns of what the last convolution in front of all attention returns.
    images_first : bool
        Whether the first dimension of all sums of tokens has one entry for each image.
    """

    def __init__(self, who: str, batch: int) -> None:
        super().__init__()
        self.who, self.batch = who, batch
        self.maps: tuple[int, int] | None = None
        self.images_first = True
        self._softmaxes: list[Tensor] = []
        self._multiplied: list[Tensor] = []

    def matrices(self) -> list[Tensor]:
        """The attention of each block as values are multiplied with it.

        Returns
        -------
        list of Tensor, (B, heads, N, N) or (B heads, N, N)
            Of N tokens in each block; they have a gradient.

        Raises
        ------
        AttributionLabError
            If there is none, if it is not between the same N tokens in all blocks, or does not depend
            on the images.
        """
        found = self._multiplied
        if not found:
            raise AttributionLabError(
                f"{self.who} needs a network with attention, and this one multiplies values with no "
                "softmax over tokens: take a method for any network"
            )
        sizes = {tuple(each.shape[-2:]) for each in found}
        whole = all(
            len(each) == self.batch if each.ndim == 4 else len(each) % self.batch == 0
            for each in found
        )
        if len(sizes) > 1 or len(set(found[0].shape[-2:])) > 1 or not whole:
            shapes = dict.fromkeys(str(tuple(each.shape)) for each in found)
            raise AttributionLabError(
                f"{self.who} follows the same tokens through all blocks, and the attention here has "
                f"the shapes {', '.join(shapes)} for {self.batch} images: windows, merged tokens and "
                "attention to other tokens than one's own have no rollout"
            )
        if not all(each.requires_grad for each in found):
            raise AttributionLabError(
                f"{self.who} needs gradients of the attention, and there are none: it does not depend "
                "on the image, or the model switches gradients off"
            )
        return found

    def computed(
        self, func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What an operation returns; the place for rules of another backward pass."""
        return func(*args, **kwargs)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        # No gradient of parameters is asked for: nothing needs to be kept for one.
        args = tuple(_without_gradient(each) for each in args)
        kwargs = {key: _without_gradient(each) for key, each in (kwargs or {}).items()}
        name = getattr(func, "__name__", str(func))
        if name in IN_ONE_PIECE:
            with self:  # the parts are seen too
                return IN_ONE_PIECE[name](self.who, *args, **kwargs)
        if name in ("batch_norm", "dropout") and kwargs.get("training"):
            raise AttributionLabError(
                f"{self.who}: the model is in training mode: call model.eval()"
            )
        given = list(tensors_among([*args, *kwargs.values()]))
        if name in PRODUCTS:
            self._multiplied += [each for each in given if self._is_softmax(each)][:1]
        result = self.computed(func, name, args, kwargs)
        if name == "conv2d" and not self._multiplied:
            self.maps = (result.shape[-2], result.shape[-1])
        elif name in ("add", "add_") and result.ndim >= 2:
            self.images_first &= len(result) == self.batch
        elif name.endswith("softmax") and result.ndim in (3, 4):
            dimension = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if dimension in (-1, result.ndim - 1):
                self._softmaxes.append(result)
        elif name in SAME_VALUES and given and self._is_softmax(given[0]):
            self._softmaxes.append(result)
        return result

    def _is_softmax(self, values: Tensor) -> bool:
        return any(values is each for each in self._softmaxes)


def _without_gradient(value: Any) -> Any:
    leaf = isinstance(value, Tensor) and value.requires_grad and value.grad_fn is None
    return value.detach() if leaf else value


def tensors_among(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among an operation's arguments, those in lists included."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_among(value)
