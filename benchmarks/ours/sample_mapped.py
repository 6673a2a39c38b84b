"""Draw 32 stacks of 4 from a million frames of 28x28 in mapped files, with successors. Unit: one sample."""

from functools import partial

from recorded import sampling_frames

prepare = partial(sampling_frames, mapped=True)
