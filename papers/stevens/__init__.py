"""The experiments of Stevens, Bengio and Singer, in Empirical Inference, 2013."""
