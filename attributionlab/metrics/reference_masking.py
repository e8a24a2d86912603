r"""Reference Pixel Flipping: random masking within an attribution's most relevant pixels.

Masking the n pixels that a map ranks first mixes two things: what these pixels tell, and how they lie
(adjacent or isolated). Of the N pixels that the map ranks first, the reference set, any n masked at
random are about as informative and as isolated as random ones. The larger N, the further they are from
the map's own first n: the expected Dice similarity of the two is n / N.
"""

from collections import Counter
from fractions import Fraction

import torch
from jaxtyping import Int
from torch import Tensor

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.validation import integer_problem, shown


def reference_order(
    orders: Int[Tensor, "batch pixels"], reference: int, generator: torch.Generator
) -> Int[Tensor, "batch pixels"]:
    """Orders whose first `reference` pixels are shuffled, all others in their places.

    The first n <= reference pixels of a shuffled order are a random subset of the reference set, every
    subset of n pixels equally likely. `reference=1` (or 0) leaves an order as it is; all pixels make it
    an order at random.

    Parameters
    ----------
    orders : Tensor of int64, (B, P)
        A permutation of 0 ... P - 1 for each image, such as `removal_order` returns.
    reference : int
        N, from 0 to P.
    generator : torch.Generator
        Shuffles; images are shuffled one by one, each in its own way.

    Returns
    -------
    Tensor of int64, (B, P)
        On the device of `orders`.

    Raises
    ------
    AttributionLabError
        For orders that are no integers of shape (B, P), a number beyond the pixels, and no generator.

    References
    ----------
    Wang and Wang (2022): A unified study of machine learning explanation evaluation metrics, section
    6.2.3.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.reference_masking import reference_order
    >>> orders = torch.tensor([[5, 4, 3, 2, 1, 0]])
    >>> shuffled = reference_order(orders, 3, torch.Generator().manual_seed(0))
    >>> sorted(shuffled[0, :3].tolist()), shuffled[0, 3:].tolist()
    ([3, 4, 5], [2, 1, 0])
    """
    if (
        not isinstance(orders, Tensor)
        or orders.dtype != torch.int64
        or orders.ndim != 2
        or not orders.numel()
    ):
        raise AttributionLabError(
            f"orders are {shown(orders)}: pass a tensor of torch.int64 of shape (B, P), such as "
            "removal_order(attributions)"
        )
    problems = integer_problem("reference", reference, 0, orders.shape[1])
    if not isinstance(generator, torch.Generator):
        problems.append(
            f"the generator is {generator!r}: pass torch.Generator().manual_seed(0), for example"
        )
    refuse_if(problems)
    shuffled = orders.clone()
    for image in range(len(orders)):
        places = torch.randperm(reference, generator=generator, device=generator.device)
        shuffled[image, :reference] = orders[image, places.to(orders.device)]
    return shuffled


def dice(first: Int[Tensor, " first"], second: Int[Tensor, " second"]) -> Fraction:
    """Dice similarity of two sets of pixels: 2 |A and B| / (|A| + |B|).

    Parameters
    ----------
    first, second : Tensor of integers, (n,) and (m,)
        Flat indices, each at most once.

    Returns
    -------
    Fraction
        Exact, from 0 (nothing shared) to 1 (the same set); 1 for two empty sets.

    Raises
    ------
    AttributionLabError
        For tensors that are no lists of integers, and for an index that stands twice.

    References
    ----------
    Dice (1945): Measures of the amount of ecologic association between species. Ecology 26.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.reference_masking import dice
    >>> dice(torch.tensor([0, 1, 2]), torch.tensor([2, 3, 4]))
    Fraction(1, 3)
    """
    sets = [_indices(first, "first"), _indices(second, "second")]
    total = len(sets[0]) + len(sets[1])
    return Fraction(2 * len(sets[0] & sets[1]), total) if total else Fraction(1)


def expected_dice(n: int, reference: int) -> Fraction:
    """Expected Dice similarity of a map's first n pixels and n random ones of its first N: n / N.

    The number k of shared pixels is hypergeometric: each of the n random pixels is one of the first n
    with probability n / N, so E k = n^2 / N, and for sets of one size the Dice similarity is k / n.

    Parameters
    ----------
    n : int
        Masked pixels, at least 1.
    reference : int
        N, at least n.

    Returns
    -------
    Fraction
        Exact.

    Raises
    ------
    AttributionLabError
        For n below 1 and a reference set smaller than n.

    References
    ----------
    Wang and Wang (2022), proposition 1, as for `reference_order`.

    Examples
    --------
    >>> from attributionlab.metrics.reference_masking import expected_dice
    >>> expected_dice(9_000, 12_000)
    Fraction(3, 4)
    """
    refuse_if(integer_problem("n", n, 1))
    refuse_if(integer_problem("reference", reference, n))
    return Fraction(int(n), int(reference))


def _indices(pixels: Tensor, name: str) -> set[int]:
    if (
        not isinstance(pixels, Tensor)
        or pixels.ndim != 1
        or pixels.is_floating_point()
        or pixels.is_complex()
        or pixels.dtype == torch.bool
    ):
        raise AttributionLabError(
            f"the {name} set of pixels is {shown(pixels)}: pass a tensor of integers of shape (n,)"
        )
    indices = pixels.tolist()
    unique = set(indices)
    if len(unique) < len(indices):
        twice = Counter(indices).most_common(1)[0][0]
        raise AttributionLabError(
            f"the {name} set of pixels holds {twice} more than once: pass each index once, "
            "pixels.unique() for example"
        )
    return unique
