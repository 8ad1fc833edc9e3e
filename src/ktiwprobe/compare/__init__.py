"""How well signals agree: metrics, SPECs, agreement, word alignment."""
