"""How fast gradsurgery is, as ratios to memory traffic and to what people would use instead: ``make bench``."""
