"""Mobile-Attention: linear attention with many small, competing heads (ICML 2024)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from mmeffvit.models.layers.choice import resolve_row
from mmeffvit.models.layers.norms import unit_norm
from mmeffvit.models.layers.reading import Locate, Reading, over_queries, rows_of_queries

from .heads import HeadMixer, split_heads

KERNELS = ('sigmoid', 'cosine_sigmoid')
NORMALIZERS = ('token', 'head')
AXES = ('tokens', 'heads')
CAPTIONS = {
    'competition': 'competition weights',
    'linear': 'without competition: linear',
    'competed': 'linear x competition',
}


@dataclass(frozen=True)
class Form:
    """Differences between the paper and the authors' code.

    Args:
        kernel: Phi: 'sigmoid', or 'cosine_sigmoid' for ``sigmoid(x / |x|)`` (section 4.1). Its norm
            is over the D channels of a head, so that Q and K are between 0.27 and 0.73.
        clip: Whether O' is clipped to [-1, 1] before the softmax.
        factor: Whether the softmax is multiplied by the number of its terms: N tokens, or M heads.
        softmax_over: 'tokens' or 'heads'.
        normalizer: Z. 'token' is ``Q . sum_n(K)``, the denominator of equation 7. 'head' is I: the
            output grows with N.
        epsilon: Added to Q and K in the flows.
    """

    kernel: str
    clip: bool
    factor: bool
    softmax_over: str
    normalizer: str
    epsilon: float

    def __post_init__(self) -> None:
        choices = dict(kernel=KERNELS, softmax_over=AXES, normalizer=NORMALIZERS)
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ValueError(f'{name} is {getattr(self, name)!r}; choose one of {known}')
        if self.epsilon < 0:
            raise ValueError(f'epsilon is {self.epsilon}; it must be at least 0')


# fmt: off
FORMS = {  #       kernel            clip   factor softmax_over normalizer epsilon
    'default': Form('sigmoid',        True,  True,  'tokens',    'token',   1e-6),
    'code':    Form('sigmoid',        True,  True,  'tokens',    'head',    1e-6),
    'paper':   Form('cosine_sigmoid', False, False, 'tokens',    'token',   0.0),
}
# fmt: on


def smallest_divisor(dtype: torch.dtype) -> float:
    """For a product of sigmoids, which may be zero; backward divides by its square, too."""
    tiny = torch.finfo(dtype).tiny
    return tiny if dtype == torch.float16 else tiny**0.5  # the root would be 0.008 in float16


def flow(first: Tensor, second: Tensor, epsilon: float) -> Tensor:
    """Inner product over the channels, with epsilon, positive: (..., D, N) -> (..., N)."""
    product = ((first + epsilon) * (second + epsilon)).sum(dim=-2)
    return product.clamp_min(smallest_divisor(product.dtype))


class MobileAttention(HeadMixer):
    """Mobile-Attention: linear attention of sigmoid features, weighted by a competition of heads.

    Equations 5 to 7, with ``Q = Phi(q)``, ``K = Phi(k)``, h over heads and n over tokens::

        I  = Q . sum_h(K)         O  = K . sum_h(Q)         what a head receives and gives
        I' = Q . sum_h(K / O)     O' = K . sum_h(Q / I)     the same, the other side normalized
        y  = sigmoid(I') * Q (K^T (N softmax_n(O') * V)) / Z

    The paper and the authors' code differ, and neither can be checked against weights, since none
    are released. ``form`` chooses a row of :data:`FORMS`, whose columns :class:`Form` explains.

    The default is the code with the divisor of equation 7, so that the output does not grow with
    the number of tokens. The paper does not state the axis of the softmax: the tokens, according to
    the code and section 5.3, or the heads, according to "weights are assigned to each head". The
    code's dropout of 0.05 follows the output projection, which is not part of this layer.

    Args:
        channels, value_channels, num_heads: See :class:`HeadMixer`.
        head_channels: D, channels of q and of k in a head; the paper's choice is 4.
        form: 'default', 'code' or 'paper', or a dict of such a name as `type` and of changed fields
            of :class:`Form`.
        competition: If False, plain linear attention: ``y = Q (K^T V) / Z``.

    Shape:
        Like :class:`HeadMixer`, at a cost linear in H W.
    """

    def __init__(
        self,
        channels: int,
        value_channels: int,
        num_heads: int,
        *,
        head_channels: int = 4,
        form: str | Mapping[str, Any] = 'default',
        competition: bool = True,
    ) -> None:
        super().__init__(channels, value_channels, num_heads, head_channels=head_channels)
        self.form = resolve_row(form, FORMS, 'form')
        self.competition = competition

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        # (B, M, D, N), (B, M, D, N) and (B, M, C / M, N)
        query, key, mixed = split_heads(query, key, value, self.head_channels)
        query, key = self.phi(query), self.phi(key)
        if self.competition:
            weights, gate = self.compete(query, key)
            mixed = mixed * weights.unsqueeze(2)
        # means instead of sums over N tokens: the same ratio, without overflow in half precision
        context = mixed @ key.transpose(2, 3) / key.shape[3]  # (B, M, C / M, D)
        mixed = context @ (query / self.denominator(query, key).unsqueeze(2))
        if self.competition:
            mixed = mixed * gate.unsqueeze(2)
        return mixed.reshape(value.shape)

    def phi(self, x: Tensor) -> Tensor:
        """The features of queries or keys (B, M, D, N)."""
        x = unit_norm(x, dim=2) if self.form.kernel == 'cosine_sigmoid' else x
        return x.sigmoid()

    def compete(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """The weights of the values, of mean 1 if ``factor``, and output gates: both (B, M, N)."""
        received, given = self.competed_flows(query, key)
        given = given.clamp(-1, 1) if self.form.clip else given
        axis = 2 if self.form.softmax_over == 'tokens' else 1
        weights = given.softmax(dim=axis)
        return weights * given.shape[axis] if self.form.factor else weights, received.sigmoid()

    def competed_flows(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """I' and O' of equation 6, both (B, M, N): their sum over the heads is M at every token."""
        eps = self.form.epsilon
        incoming = flow(query, key.sum(dim=1, keepdim=True), eps)
        outgoing = flow(key, query.sum(dim=1, keepdim=True), eps)
        received = flow(query, (key / outgoing.unsqueeze(2)).sum(dim=1, keepdim=True), eps)
        given = flow(key, (query / incoming.unsqueeze(2)).sum(dim=1, keepdim=True), eps)
        return received, given

    def head_scores(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """The pruning score of appendix A: the mean of O' over the tokens.

        Shape:
            The inputs of the forward -> (B, M), with a mean of 1 over the heads.
        """
        query, key, _ = split_heads(*inputs, self.head_channels)
        _, given = self.competed_flows(self.phi(query), self.phi(key))
        return given.mean(dim=-1)

    def denominator(self, query: Tensor, key: Tensor) -> Tensor:
        """Z divided by N, (B, M, N)."""
        if self.form.normalizer == 'token':
            shares = (query * key.mean(dim=-1, keepdim=True)).sum(dim=-2)
            return shares.clamp_min(smallest_divisor(shares.dtype))
        return flow(query, key.sum(dim=1, keepdim=True), self.form.epsilon) / key.shape[3]

    def read_attention(self, inputs: tuple[Tensor, ...], locate: Locate) -> Reading:
        """Token weights with and without competition, in multiples of the uniform weight.

        'competition' is ``N softmax_n(O')``, or what other forms have in its place. 'linear' is the
        weight of a token in plain linear attention, ``N Q_i . K_n / sum_m(Q_i . K_m)`` for query i.
        'competed' is their product, the weight in this layer. By default, the first two have mean 1
        over the tokens in each head, so one color scale fits all. Maps are drawn as sums over the M
        heads, with the uniform weight M.
        """
        queries, keys, _ = split_heads(*inputs, self.head_channels)  # (1, M, D, N)
        queries, keys = self.phi(queries), self.phi(keys)
        heads, size = queries.shape[1], inputs[1].shape[2:]
        rows = rows_of_queries(inputs[0], locate).transpose(1, 2)  # (1, M D, N')
        rows = self.phi(rows.unflatten(1, (heads, -1)))
        # average over the queries first: the cost stays linear in N
        shares = (rows * keys.mean(dim=-1, keepdim=True)).sum(dim=2, keepdim=True)  # (1, M, 1, N')
        query_weights = (rows / shares).mean(dim=-1, keepdim=True)  # (1, M, D, 1)
        arrays = {'linear': (query_weights * keys).sum(dim=2)}  # (1, M, N)
        if self.competition:
            weights, _ = self.compete(queries, keys)
            arrays = dict(competition=weights, **arrays, competed=weights * arrays['linear'])
        arrays = {name: array.unflatten(2, size)[0] for name, array in arrays.items()}
        maps = {CAPTIONS[name]: array.sum(dim=0) for name, array in arrays.items()}
        title = f'sums over {heads} heads; linear: {over_queries(locate)}'
        return Reading(
            'mobile', title, maps, arrays,
            queried=True, shared_scale=True, by_head='competed' if self.competition else 'linear',
        )  # fmt: skip

    def extra_repr(self) -> str:
        form = ', '.join(f'{name}={value!r}' for name, value in asdict(self.form).items())
        return f'head_channels={self.head_channels}, {form}, competition={self.competition}'
