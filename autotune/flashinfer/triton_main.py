"""@DEFINITION@ in Triton, for any @SIZES@.

@SIGNATURE@
@STATE@
Written by gdngen @VERSION@; generate it anew instead of editing it.
"""

from . import @MODULES@

# A call takes the first form whose bounds it keeps: at most so many columns of all states, tokens of a sequence on the mean, and tokens of all.
FORMS = (
@FORMS@)


def form(tokens, sequences):
    """The kernels of a call by its sizes alone: nothing is read from a tensor."""
    for columns, length, most, kernels in FORMS:
        if (not columns or sequences * @COLUMNS@ <= columns) and (not length or tokens <= length * sequences) and (not most or tokens <= most):
            return kernels


def run(@ARGUMENTS@):
    for x in (@TENSORS@):
        if x is not None and not x.is_contiguous():
            raise ValueError(f"a tensor of shape {tuple(x.shape)} is not contiguous")
    tokens, sequences = q.shape[0], @SEQUENCES@
    form(tokens, sequences).run(@CALL@, scale=float(@SCALE@ or @DEFAULT@))
