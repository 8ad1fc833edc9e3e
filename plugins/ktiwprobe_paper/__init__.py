"""The models, tasks and experiments of "Approximating How Single Head Attention Learns" (Snell et al., 2021)."""
